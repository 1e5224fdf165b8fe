/// A page of metrics in Prometheus' text format 0.0.4: a HELP and a TYPE line, then one sample a line. Names end in the unit, and in
/// `_total` for counters (https://prometheus.io/docs/practices/naming).
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

    /// Adds one sample of a duration that has no histogram.
    package mutating func gauge(_ name: String, _ help: String, _ duration: Duration) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) gauge\n\(name) \(seconds(duration))\n"
    }

    /// Adds one histogram: the count up to each bound, the sum, and the total count.
    package mutating func histogram(_ name: String, _ help: String, _ histogram: DurationHistogram) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        for (bound, count) in zip(DurationHistogram.bounds, histogram.cumulative) {
            text += "\(name)_bucket{le=\"\(seconds(bound))\"} \(count)\n"
        }
        text += "\(name)_bucket{le=\"+Inf\"} \(histogram.count)\n"
        text += "\(name)_sum \(seconds(histogram.sum))\n\(name)_count \(histogram.count)\n"
    }

    /// The seconds with as many decimals as needed, and at least one.
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
