import BenchKit

/// Lines over one time axis, each in a panel of its own, as SVG: enough to detect growth.
struct SVGChart {
    struct Panel {
        var title: String
        var unit: String
        /// Pairs of seconds and value, in order. A gap in time of more than three seconds is a gap in the line.
        var points: [(second: Double, value: Double)]
    }

    /// A period that is shaded in all panels.
    struct Band {
        var from: Double
        var to: Double
        var colour: String
    }

    var title: String
    var seconds: Double
    var panels: [Panel]
    var bands: [Band] = []
    /// Moments that are marked by a line through all panels.
    var marks: [Double] = []
    /// The meaning of band colours and marks, below the title.
    var legend: String

    private static let width = 900.0, left = 70.0, right = 10.0, top = 44.0, height = 84.0, gap = 26.0

    var text: String {
        let whole = Self.top + Double(panels.count) * (Self.height + Self.gap) + 18
        var svg = """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(short(Self.width))" height="\(short(whole))" \
            viewBox="0 0 \(short(Self.width)) \(short(whole))" font-family="sans-serif" font-size="11" fill="#333">
            <rect width="100%" height="100%" fill="#fff"/>
            <text x="\(short(Self.left))" y="16" font-size="14">\(title.escaped)</text>
            <text x="\(short(Self.left))" y="31" fill="#777">\(legend.escaped)</text>

            """
        for (index, panel) in panels.enumerated() {
            svg += draw(panel, top: Self.top + Double(index) * (Self.height + Self.gap) + 14)
        }
        let bottom = whole - 8
        for tick in 0...6 {
            let second = seconds * Double(tick) / 6
            // A centred last label would be cut off at the border.
            svg +=
                "<text x=\"\(short(x(second)))\" y=\"\(short(bottom))\" text-anchor=\"\(tick == 6 ? "end" : "middle")\" fill=\"#777\">"
            svg += "\((second / 60).short) min</text>\n"
        }
        return svg + "</svg>\n"
    }

    private func x(_ second: Double) -> Double {
        Self.left + (Self.width - Self.left - Self.right) * min(max(second / max(seconds, 1), 0), 1)
    }

    private func draw(_ panel: Panel, top: Double) -> String {
        let most = max(panel.points.map(\.value).max() ?? 0, 1e-9)
        let floor = top + Self.height
        func y(_ value: Double) -> Double { floor - Self.height * value / most }
        var svg = "<text x=\"\(short(Self.left))\" y=\"\(short(top - 3))\">\(panel.title.escaped)</text>\n"
        for band in bands {
            let from = x(band.from)
            svg += "<rect x=\"\(short(from))\" y=\"\(short(top))\" width=\"\(short(max(1, x(band.to) - from)))\""
            svg += " height=\"\(short(Self.height))\" fill=\"\(band.colour)\"/>\n"
        }
        for mark in marks {
            svg += "<path d=\"M\(short(x(mark))) \(short(top))V\(short(floor))\" stroke=\"#c33\" stroke-dasharray=\"2 2\"/>\n"
        }
        for share in [0.0, 0.5, 1.0] {
            let height = y(most * share)
            svg += "<path d=\"M\(short(Self.left)) \(short(height))H\(short(Self.width - Self.right))\" stroke=\"#ddd\"/>\n"
            svg += "<text x=\"\(short(Self.left - 5))\" y=\"\(short(height + 4))\" text-anchor=\"end\" fill=\"#777\">"
            svg += "\((most * share).short) \(panel.unit)</text>\n"
        }
        var path = ""
        for (index, point) in panel.points.enumerated() {
            func isNear(_ other: Int) -> Bool {
                panel.points.indices.contains(other) && abs(panel.points[other].second - point.second) <= 3
            }
            // A point within a level stretch adds nothing.
            let isNext = isNear(index - 1)
            if isNext, isNear(index + 1), [-1, 1].allSatisfy({ abs(y(panel.points[index + $0].value) - y(point.value)) < 0.5 }) {
                continue
            }
            path += "\(isNext ? "L" : "M")\(short(x(point.second))) \(short(y(point.value)))"
        }
        return svg + "<path d=\"\(path)\" fill=\"none\" stroke=\"#246\" stroke-width=\"1.2\"/>\n"
    }

    /// One decimal: finer than a pixel.
    private func short(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths.isMultiple(of: 10) ? "\(tenths / 10)" : "\(tenths / 10).\(abs(tenths % 10))"
    }
}

extension String {
    /// The text with escapes for XML.
    fileprivate var escaped: String {
        var text = ""
        for character in self {
            switch character {
            case "<": text += "&lt;"
            case "&": text += "&amp;"
            default: text.append(character)
            }
        }
        return text
    }
}
