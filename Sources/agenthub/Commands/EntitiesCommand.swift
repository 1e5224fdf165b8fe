import ArgumentParser
import SyncCore
import SyncYAML

/// `agenthub entities check FILE`: checks a file of entities before a hub uses it.
struct EntitiesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "entities", abstract: "Check a file of entities before a hub uses it.", subcommands: [CheckEntities.self])
}

struct CheckEntities: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check whether `serve --entities` accepts this file. Nothing is changed.",
        discussion: "Each error is one line with the file, line, column and expected value.")

    @Argument(help: ArgumentHelp("The file, YAML.", valueName: "file")) var file: String
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        do throws(ConfigurationErrors) {
            let names = try EntitySettings.readHub(file: file).rules.entities.keys.map(\.text).sorted()
            try say(
                ["good": true, "entities": .list(names), "errors": []],
                "good: " + (names.isEmpty ? "no entities" : names.joined(separator: ", ")))
        } catch {
            // A caller that does not read the output gets the exit status.
            if json { try? Say.result(JSON.object(["good": false, "errors": .array(error.errors.map(Self.json))]).json) }
            throw Failure(78, error.description)
        }
    }

    private func say(_ object: JSONObject, _ text: String) throws(ConfigurationErrors) {
        // A failure to print does not concern the file.
        try? Say.result(json ? JSON.object(object).json : text)
    }

    private static func json(_ error: ConfigurationError) -> JSON {
        func text(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
        return [
            "file": .string(error.file), "line": .int(Int64(error.line)), "column": .int(Int64(error.column)), "key": .string(error.key),
            "problem": .string(error.problem), "expected": text(error.expected), "did_you_mean": text(error.nearest),
        ]
    }
}
