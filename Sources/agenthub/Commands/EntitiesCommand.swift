import ArgumentParser
import SyncCore
import SyncYAML

/// `agenthub entities check FILE`: checks a file of entities before a hub uses it.
struct EntitiesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "entities", abstract: "Look at a file of entities before a hub works by it.", subcommands: [CheckEntities.self])
}

struct CheckEntities: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Would `serve --entities` accept this file? Nothing is changed.",
        discussion: "Everything that is wrong with it is one line with file, line, column and what was expected.")

    @Argument(help: ArgumentHelp("The file, YAML.", valueName: "file")) var file: String
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        do throws(ConfigurationErrors) {
            let names = try EntitySettings.readEntities(file: file).entities.keys.map(\.text).sorted()
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
