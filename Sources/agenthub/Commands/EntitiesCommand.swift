import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux
import SyncYAML

/// `agenthub entities`: the settings of entities that a hub and its devices have, and had.
struct EntitiesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "entities", abstract: "Check, apply, list and take back settings of entities, also while the hub runs.",
        discussion: """
            The hub keeps the settings in its database. The newest generation is in force, for all replicas. apply and rollback make a new \
            generation without a restart, and devices get it with their next pull. The file of serve --entities makes one at the start \
            and on SIGHUP, if it has changed since it was last read.
            """,
        subcommands: [CheckEntities.self, ApplyEntities.self, EntityHistory.self, RollBackEntities.self])
}

struct CheckEntities: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check whether a hub accepts this file. Nothing is changed.",
        discussion: "Each error is one line with the file, line, column and expected value.")

    @Argument(help: ArgumentHelp("The file, YAML.", valueName: "file")) var file: String
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        do throws(ConfigurationErrors) {
            let settings = try EntitySettings.readHub(file: file)
            let names = settings.rules.entities.keys.map(\.text).sorted()
            try say(
                ["good": true, "entities": .list(names), "errors": []],
                "good: " + (names.isEmpty ? "no entities" : names.joined(separator: ", ")))
            for hint in GrantHints(settings).ofSettings { Say.error("warning: \(file): \(hint)") }
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
        [
            "file": .string(error.file), "line": .int(Int64(error.line)), "column": .int(Int64(error.column)), "key": .string(error.key),
            "problem": .string(error.problem), "expected": .optional(error.expected), "did_you_mean": .optional(error.nearest),
        ]
    }
}

struct ApplyEntities: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply", abstract: "Put a file of entity settings in force, for all replicas, without a restart.",
        discussion: """
            The command checks the file and shows the difference to the settings in force. Devices get the new ones with their next pull. \
            If the scopes of an entity change, the hub assigns its records to devices anew, and pushes wait until that is done.
            """)

    @Argument(help: ArgumentHelp("The file, YAML, with the keys that serve --entities takes.", valueName: "file")) var file: String
    @OptionGroup var folder: DataFolder
    @Flag(help: "Only show the difference.") var dryRun = false
    @Flag(help: ArgumentHelp("Send all records of an entity to all devices if it had scopes in the database and has none in the file."))
    var dropScopes = false

    func run() throws {
        let wanted: EntityText
        do throws(ConfigurationErrors) {
            wanted = try EntitiesFile.read(file, by: operatorName(), at: SystemClocks().now().wall)
        } catch {
            throw Failure(78, error.description)
        }
        try EntityChange(folder: folder, isDry: dryRun, dropsScopes: dropScopes).make(wanted)
    }
}

struct EntityHistory: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "List the generations of settings, newest first. The newest one is in force.",
        discussion: "The newest 50 are kept. With a number the command prints the text of that generation.")

    @Argument(help: "Print the text of this generation.") var generation: Int64?
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let inspector = try folder.inspector()
        do {
            if let generation { return try show(try EntityChange.generation(generation, of: inspector)) }
            try list(try inspector.entityHistory())
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    private func show(_ row: EntityGeneration) throws(Failure) {
        guard json else {
            guard Say.write(Array(row.text.utf8)) else {
                throw Failure(74, "write to standard output: \(String(cString: strerror(errno)))")
            }
            return
        }
        var object = Self.object(row)
        object["text"] = .string(row.text)
        try Say.result(JSON.object(object).json)
    }

    private func list(_ rows: [EntityGeneration]) throws(Failure) {
        if json { return try Say.result(JSON.array(rows.map { .object(Self.object($0)) }).json) }
        if rows.isEmpty { return Say.error("no settings were ever applied; see: agenthub entities apply --help") }
        for (index, row) in rows.enumerated() {
            let mark = index == 0 ? "in force" : ""
            try Say.result("\(row.number)  \(row.appliedAt)  \(row.digest.prefix(12))  \(row.appliedBy)  \(mark)".trimmingBlanks)
        }
    }

    private static func object(_ row: EntityGeneration) -> JSONObject {
        [
            "generation": .int(row.number), "applied_at": .string(row.appliedAt.description), "applied_by": .string(row.appliedBy),
            "digest": .string(row.digest),
        ]
    }
}

struct RollBackEntities: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback", abstract: "Put earlier settings in force again, as a new generation.",
        discussion: """
            Without a number the command takes the generation before the present one. Records are converted back to their earlier \
            version if the steps of the present settings lead there. A value that a step has dropped does not come back.
            """)

    @Argument(help: "Number of the generation.") var generation: Int64?
    @OptionGroup var folder: DataFolder
    @Flag(help: "Only show the difference.") var dryRun = false
    @Flag(help: ArgumentHelp("Send all records of an entity to all devices if it has scopes in the database and had none then."))
    var dropScopes = false

    func run() throws {
        let row = try earlier()
        let wanted = EntityText(
            row.text, of: "generation \(row.number)", by: "\(operatorName()), back to \(row.number)", at: SystemClocks().now().wall)
        try EntityChange(folder: folder, isDry: dryRun, dropsScopes: dropScopes).make(wanted)
    }

    private func earlier() throws -> EntityGeneration {
        let inspector = try folder.inspector()
        do {
            let newest = try inspector.entityHistory().first?.number ?? 0
            guard let wanted = generation ?? (newest > 1 ? newest - 1 : nil) else {
                throw Failure(
                    66,
                    newest == 0
                        ? "no settings were ever applied; see: agenthub entities apply --help"
                        : "generation \(newest) is the first one, so there are no earlier settings. To change them: "
                            + "agenthub entities apply FILE"
                )
            }
            return try EntityChange.generation(wanted, of: inspector)
        } catch let error as HubError {
            throw Failure(error)
        }
    }
}

/// One change of the settings by a command: shown, and made unless it is a dry run.
private struct EntityChange {
    var folder: DataFolder
    var isDry: Bool
    var dropsScopes: Bool

    static func generation(_ number: Int64, of inspector: HubInspector) throws(HubError) -> EntityGeneration {
        guard let row = try inspector.entities(number) else {
            throw HubError(
                .badEntities, doing: "find generation \(number)",
                detail: "it is not kept. To list those that are: agenthub entities history")
        }
        return row
    }

    func make(_ wanted: EntityText) throws {
        do {
            if isDry {
                let newest = folder.lacksHub ? nil : try folder.inspector().entities()
                let unscoped = try show(newest, wanted)
                try refuse(wanted, over: newest)
                if let first = unscoped.first, !dropsScopes {
                    throw Failure(
                        78,
                        "a hub refuses these settings: they have no scope for \(first), and the settings in force have one. To keep the "
                            + "scope, add it to the file; to end it, use --drop-scopes")
                }
                return
            }
            // A folder gets no database for settings that it would not take.
            if folder.lacksHub { try refuse(wanted, over: nil) }
            let hub = try HubAtHand(folder)
            defer { hub.close() }
            let newest = try hub.newestEntities(in: folder)
            try show(newest, wanted)
            let answer = try hub.apply(wanted, over: newest?.number ?? 0, droppingScopes: dropsScopes)
            try Say.result(
                answer.isNew
                    ? "generation \(answer.generation) is in force" : "nothing to do: generation \(answer.generation) has these settings")
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    /// - Throws: 78 where a hub would refuse the settings. Those that are in force stay so, whatever this version objects to.
    private func refuse(_ wanted: EntityText, over newest: EntityGeneration?) throws(Failure) {
        guard newest?.digest != EntityText.digest(of: wanted.text), let objection = EntitiesFile.objection(to: wanted) else { return }
        throw Failure(78, "a hub refuses these settings: \(objection.detail)")
    }

    /// - Returns: The entities that lose their scope.
    @discardableResult
    private func show(_ newest: EntityGeneration?, _ wanted: EntityText) throws(Failure) -> [EntityName] {
        let difference: EntityDifference
        do throws(ConfigurationErrors) {
            difference = try EntitiesFile.difference(from: newest, to: wanted)
        } catch {
            // Settings that cannot be read may be replaced; the wanted ones are checked when they are applied.
            Say.error("the difference is not known, because this program cannot read the settings: \(error)")
            return []
        }
        for line in difference.lines { try Say.result(line) }
        for hint in difference.hints { Say.error("warning: \(hint)") }
        if difference.lines.isEmpty {
            try Say.result("the settings are the same")
            return []
        }
        try Say.result(
            difference.isForDevices
                ? "devices get other settings with their next pull"
                : "the settings of the devices stay as they are, because only those of the hub change")
        return difference.unscoped
    }
}

extension String {
    fileprivate var trimmingBlanks: String { String(reversed().drop { $0 == " " }.reversed()) }
}
