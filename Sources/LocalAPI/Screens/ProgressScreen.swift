package import SyncCore

/// The output of `agentctl form` for people: a table of the sections, and what is missing.
package enum ProgressScreen {
    package static func render(_ answer: ProgressAnswer, width: Int = 80) -> [String] {
        let says = answer.saysComplete ? ", says that it is complete" : ""
        guard answer.state == "judged" else {
            let text = answer.reason ?? (answer.state == "none" ? "the record names no form" : "its form is \(answer.state)")
            return wrapped("\(answer.record)\(says): \(text)", width)
        }
        let form = answer.form.map { " by the form \($0)" } ?? ""
        let sections = answer.sections.map { section in
            Row(name: section.title ?? section.id, applies: section.applies, count: section.count, percent: section.percent)
        }
        let total = Row(name: "in all", applies: true, count: answer.count, percent: answer.percent)
        return wrapped("\(answer.record)\(form)\(says)", width) + lines(sections + [total], answer.holes, answer.faults, width)
    }

    /// The same for a form that was tried with sample answers.
    package static func render(_ progress: FormProgress, width: Int = 80) -> [String] {
        let sections = progress.sections.map { section in
            Row(name: section.title ?? section.id, applies: section.applies, count: section.count, percent: section.count.percent)
        }
        let total = Row(name: "in all", applies: true, count: progress.total, percent: progress.total.percent)
        return lines(sections + [total], progress.holes, progress.faults, width)
    }

    private struct Row {
        var name: String
        var applies: Bool
        var count: FormCount
        var percent: Int
    }

    private static func lines(_ rows: [Row], _ holes: [Problem.Pointer], _ faults: [Problem.Pointer], _ width: Int) -> [String] {
        var table = TextTable([
            .init("section"), .init("questions", .right), .init("answered", .right), .init("required", .right), .init("missing", .right),
            .init("done", .right),
        ])
        for row in rows {
            let count = row.count
            table.add(
                [PlainText.safe(row.name)]
                    + (row.applies
                        ? ["\(count.questions)", "\(count.answered)", "\(count.required)", "\(count.missing)", "\(row.percent) %"]
                        : ["-", "-", "-", "-", "-"]))
        }
        var lines = table.lines(width: width)
        // A wrong answer to a question that must be answered is a hole, too.
        let places = Set(faults.map { Array($0.pointer.utf8) })
        for hole in holes where !places.contains(Array(hole.pointer.utf8)) {
            lines += wrapped("missing: \(hole.pointer) \(hole.detail)", width)
        }
        for fault in faults { lines += wrapped("wrong: \(fault.pointer) \(fault.detail)", width) }
        return lines
    }

    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        PlainText.wrap(PlainText.safe(text), to: width, lines: 4)
    }
}
