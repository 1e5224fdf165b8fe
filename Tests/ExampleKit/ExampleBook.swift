import Foundation

/// The examples that stand in `deploy/api/PROTOCOL.md`.
package enum ExampleBook {
    package static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("deploy/api/PROTOCOL.md").path

    package struct Awaited: Sendable {
        package var sides: Set<WorkedExample.Side>
        package var why: String
    }

    /// Examples of rules that some programs do not follow yet, by name. Each is parsed like the others, and run by the other sides. Tests
    /// fail for a name that no example has, and for an example that its side runs well by now, so that nothing stays here unnoticed.
    package static let awaited: [String: Awaited] = [:]

    /// Every example, read once. A document that is malformed has none, and ``problem`` says why.
    package static let examples: [WorkedExample] = (try? read.get()) ?? []

    package static var problem: String? { if case .failure(let error) = read { "\(error)" } else { nil } }

    package static func examples(for side: WorkedExample.Side) -> [WorkedExample] {
        examples.filter { $0.isRun(by: side) && awaited[$0.name]?.sides.contains(side) != true }
    }

    package static func awaited(by side: WorkedExample.Side) -> [WorkedExample] {
        examples.filter { awaited[$0.name]?.sides.contains(side) == true }
    }

    private static let read = Result { try parse(try String(contentsOfFile: file, encoding: .utf8)) }

    /// The examples of a document, in their order.
    package static func parse(_ document: String) throws -> [WorkedExample] {
        var examples: [WorkedExample] = []
        var names: Set<String> = []
        for block in try blocks(of: document) {
            let example = try WorkedExample(block)
            guard names.insert(example.name).inserted else { throw ExampleError("two examples are called \(example.name)") }
            examples.append(example)
        }
        return examples
    }

    private static let fence = "```"

    private static func blocks(of document: String) throws -> [String] {
        var blocks: [String] = []
        var block: [Substring]?
        var isExample = false
        for (index, line) in document.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            guard line.hasPrefix(fence) else {
                block?.append(line)
                continue
            }
            if let lines = block {
                if isExample { blocks.append(lines.joined(separator: "\n")) }
                block = nil
            } else {
                isExample = line == fence + "json example"
                if !isExample, line.contains("example") { throw ExampleError("line \(index + 1): \(line) is not `json example`") }
                block = []
            }
        }
        if block != nil { throw ExampleError("a block has no end") }
        return blocks
    }
}
