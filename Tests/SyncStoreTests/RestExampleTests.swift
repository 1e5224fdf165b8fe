import ExampleKit
import Testing

@Suite("Worked examples of the protocol, at an existing backend")
struct RestExampleTests {
    @Test("The agent makes of every example what the rule says, or the less that the document says of it")
    func examples() throws {
        for example in ExampleBook.examples(for: .rest) {
            for order in example.orders {
                for failure in try ExampleBackend.failures(of: example, order) { Issue.record("\(example.name) (\(order)): \(failure)") }
            }
        }
    }
    @Test("A wrong word in any part of any example is noticed at a backend")
    func mistakes() throws {
        for example in ExampleBook.examples(for: .rest) {
            for mistake in example.mistakes where mistake.sides.contains(.rest) {
                #expect(
                    try !ExampleBackend.failures(of: mistake.example, mistake.order).isEmpty,
                    "\(example.name) (\(mistake.order)): \(mistake.what)")
            }
        }
    }
}
