import BenchKit
import SyncCore

/// The result of a soak, as statements that hold or do not.
struct SoakVerdict {
    struct Line {
        var title: String
        var value: String
        var limit: String
        /// `nil`: the run was too short for a verdict.
        var holds: Bool?
    }

    let lines: [Line]
    var holds: Bool { !lines.contains { $0.holds == false } }

    /// Length of one process below which a slope is noise, seconds.
    static let secondsMin = 240.0
    /// The first seconds of a process, which fill its caches.
    static let warmUp = 45.0

    init(_ samples: [Soak.Sample], from half: Double, judged: (lost: Int, twice: Int, foreign: Int, wrong: Int)) {
        let life = samples.filter { $0.second >= half + SoakVerdict.warmUp }
        let isLong = (life.last?.second ?? 0) - (life.first?.second ?? 0) >= SoakVerdict.secondsMin
        func slope(_ value: (Soak.Sample) -> Double) -> Double { theilSen(life.map { ($0.second / 60, value($0)) }) }
        func limited(_ title: String, _ value: Double, _ unit: String, _ limit: Double) -> Line {
            Line(
                title: title, value: "\(value < 0 ? "-" : "")\(value.magnitude.short) \(unit)",
                limit: "<= \(limit.short) \(unit)",
                holds: isLong ? value <= limit : nil)
        }
        func flash(_ part: ArraySlice<Soak.Sample>) -> Double {
            guard let first = part.first, let last = part.last, last.accepted > first.accepted else { return 0 }
            return (last.writtenBytes - first.writtenBytes) / (last.accepted - first.accepted)
        }
        /// The ratio of carried bytes to document bytes: heads, receipts, handshakes and probes of a bad day, for documents of 50 bytes.
        func wire(_ part: ArraySlice<Soak.Sample>) -> Double {
            guard let first = part.first, let last = part.last, last.workBytes > first.workBytes else { return 0 }
            return (last.wireBytes - first.wireBytes) / (last.workBytes - first.workBytes)
        }
        let early = flash(life.prefix(life.count / 2)), late = flash(life.suffix(life.count / 2))
        lines = [
            Line(
                title: "acknowledged readings that are not at the hub", value: "\(judged.lost)", limit: "0",
                holds: judged.lost == 0),
            Line(title: "readings that are at the hub twice", value: "\(judged.twice)", limit: "0", holds: judged.twice == 0),
            Line(
                title: "readings at the hub without an acknowledgement", value: "\(judged.foreign)", limit: "0", holds: judged.foreign == 0
            ),
            Line(
                title: "work orders with another content than the last answer", value: "\(judged.wrong)", limit: "0",
                holds: judged.wrong == 0),
            limited("own memory: growth", slope(\.anonymousBytes) / 1_024, "KB/min", 100),
            limited("own memory: most", (life.map(\.anonymousBytes).max() ?? 0) / 1_048_576, "MB", 24),
            limited("descriptors: growth", slope(\.descriptors), "/min", 0.2),
            limited("write-ahead log: most", (life.map(\.walBytes).max() ?? 0) / 1_048_576, "MB", 24),
            limited("flash bytes a change, later part beside earlier", early > 0 ? late / early : 0, "x", 1.5),
            limited("bytes on the wire for a byte of a document", wire(samples[...]), "x", 3),
        ]
    }

    var text: String {
        var table = TextTable(["what", "seen", "limit", ""], words: [0, 3])
        for line in lines {
            table.add([line.title, line.value, line.limit, line.holds.map { $0 ? "holds" : "BROKEN" } ?? "too short to say"])
        }
        return table.text
    }

    var json: JSON {
        .array(
            lines.map { line in
                [
                    "title": .string(line.title), "seen": .string(line.value), "limit": .string(line.limit),
                    "holds": line.holds.map { .bool($0) } ?? .null,
                ]
            })
    }
}

/// The median of the slopes between all pairs of points (Theil and Sen): single bursts do not tilt it.
func theilSen(_ points: [(Double, Double)]) -> Double {
    // Some hundred points are enough, and the number of pairs grows with their square.
    let step = max(1, points.count / 300)
    let chosen = stride(from: 0, to: points.count, by: step).map { points[$0] }
    var slopes: [Double] = []
    for (index, left) in chosen.enumerated() {
        for right in chosen[(index + 1)...] where right.0 > left.0 { slopes.append((right.1 - left.1) / (right.0 - left.0)) }
    }
    return median(slopes)
}
