/// The order in which the questions of a form are looked at: each after those that its condition names, after its group, and after those
/// that the condition of its section names.
enum FormOrder {
    /// - Parameter problem: Makes the error of a node and a text. Sections have the numbers after those of the questions.
    /// - Throws: The error that `problem` makes, when a condition depends on itself.
    static func order(
        _ questions: [FormQuestion], _ sections: [FormSection], problem: (Int, String) -> Problem
    ) throws(Problem) -> [Int] {
        let needed: [[Int]] =
            questions.map { question in
                (question.condition?.questions ?? []) + [question.group ?? questions.count + question.section]
            } + sections.map { $0.condition?.questions ?? [] }
        enum Mark { case unseen, open, done }
        var marks = [Mark](repeating: .unseen, count: needed.count)
        var order: [Int] = []
        // Without recursion: a chain of conditions may be as long as the form.
        for start in needed.indices where marks[start] == .unseen {
            var open = [(node: start, next: 0)]
            marks[start] = .open
            while let last = open.last {
                guard last.next < needed[last.node].count else {
                    marks[last.node] = .done
                    if last.node < questions.count { order.append(last.node) }
                    open.removeLast()
                    continue
                }
                let node = needed[last.node][last.next]
                open[open.count - 1].next += 1
                switch marks[node] {
                case .done: break
                case .unseen:
                    marks[node] = .open
                    open.append((node, 0))
                case .open:
                    let circle = Array(open.map(\.node).drop { $0 != node }) + [node]
                    throw problem(culprit(circle, questions, sections), text(circle, questions, sections))
                }
            }
        }
        return order
    }

    /// The first of the circle that has a condition of its own.
    private static func culprit(_ circle: [Int], _ questions: [FormQuestion], _ sections: [FormSection]) -> Int {
        circle.first { node in
            (node < questions.count ? questions[node].condition : sections[node - questions.count].condition) != nil
        } ?? circle[0]
    }

    private static func text(_ circle: [Int], _ questions: [FormQuestion], _ sections: [FormSection]) -> String {
        var names = circle.map { node in
            node < questions.count
                ? String(questions[node].id.text.prefix(60)) : "section \(sections[node - questions.count].id.text.prefix(60))"
        }
        if names.count > 12 { names = names.prefix(6) + ["…"] + names.suffix(5) }
        return "makes a circle, so it could never be decided: " + names.joined(separator: " -> ")
    }
}
