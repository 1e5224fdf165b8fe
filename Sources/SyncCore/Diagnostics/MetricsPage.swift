/// A page of figures in Prometheus' text format 0.0.4: a HELP and a TYPE line, then a sample a line. Names end in the unit, and
/// in `_total` where they only grow (https://prometheus.io/docs/practices/naming).
package struct MetricsPage: Sendable {
    package enum Kind: String, Sendable { case counter, gauge }

    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    package private(set) var text = ""

    package init() {}

    package mutating func family(_ name: String, _ kind: Kind, _ help: String, _ samples: [(labels: [String: String], value: Int64)]) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(escaped($0.value))\"" }
            text += name + (labels.isEmpty ? "" : "{" + labels.joined(separator: ",") + "}") + " \(sample.value)\n"
        }
    }

    /// One sample: a duration that is not counted by bounds.
    package mutating func gauge(_ name: String, _ help: String, _ duration: Duration) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) gauge\n\(name) \(seconds(duration))\n"
    }

    /// One series: what took no longer than each bound, the sum, and how many in all.
    package mutating func histogram(_ name: String, _ help: String, _ histogram: DurationHistogram) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        for (bound, count) in zip(DurationHistogram.bounds, histogram.cumulative) {
            text += "\(name)_bucket{le=\"\(seconds(bound))\"} \(count)\n"
        }
        text += "\(name)_bucket{le=\"+Inf\"} \(histogram.count)\n"
        text += "\(name)_sum \(seconds(histogram.sum))\n\(name)_count \(histogram.count)\n"
    }

    /// With as many decimals as it takes, and at least one.
    private func seconds(_ duration: Duration) -> String {
        let nanoseconds = duration.nanoseconds
        var fraction = String(String(1_000_000_000 + nanoseconds % 1_000_000_000).dropFirst())
        while fraction.count > 1, fraction.last == "0" { fraction.removeLast() }
        return "\(nanoseconds / 1_000_000_000).\(fraction)"
    }

    private func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.append(character)
            }
        }
    }
}
