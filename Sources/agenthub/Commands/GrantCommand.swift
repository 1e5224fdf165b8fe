import ArgumentParser
import HubServer
import SyncCore
import SyncLinux
import SyncYAML

/// `agenthub grant DEVICE site=s-3 role=inspector …`: gives a device scopes, roles and groups, also beside a running server.
struct GrantCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant", abstract: "Give a device scopes, roles and groups.",
        discussion:
            "A device receives a record when one of the record's scopes is one of the device's. What was there before comes with its next "
            + "pull. Values that are the id of the device are its own without a grant.")

    @Argument(help: "The id of the device.") var device: DeviceID
    @Argument(help: ArgumentHelp("Such as site=s-3, role=inspector, group=north.", valueName: "name=value")) var grants: [GrantArgument]
    @OptionGroup var folder: DataFolder

    func validate() throws {
        if grants.isEmpty { throw ValidationError("name at least one grant, such as site=s-3") }
    }

    func run() throws {
        let now = SystemClocks().now().wall
        var given: [GrantArgument] = []
        var fault: Failure?
        try folder.updateTokens { book in
            (given, fault) = ([], nil)
            let before = book
            for grant in grants {
                if case .scope(let scope) = grant.kind, scope.value != device.text,
                    book.entries.contains(where: { $0.device.text == scope.value })
                {
                    fault = Failure(64, "\(scope) belongs to the device \(scope.value), because the value is its id")
                    break
                }
                switch book.grant(grant.kind, to: device, at: now) {
                case .given: given.append(grant)
                case .hadBefore: break
                case .refused:
                    fault = Failure(
                        64,
                        "\(device) has \(DeviceAccess.grantsMax) grants, the limit; name the values in a group of the entities file, "
                            + "and grant that")
                }
            }
            // All of them are given, or none.
            if fault != nil { book = before }
        }
        if let fault { throw fault }
        let there = grants.count - given.count
        if !given.isEmpty { try Say.result("granted \(given.map(\.text).joined(separator: ", ")) to \(device)") }
        if there > 0 { Say.error("\(device) had \(there == 1 ? "one" : "\(there)") of them before") }
    }
}

/// `agenthub revoke DEVICE site=s-3 …`
struct RevokeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Take scopes, roles and groups back from a device.",
        discussion:
            "With its next pull the records of the scope leave the device. Its unsent changes of them stay on the device, parked. "
            + "agenthub token revoke shuts a device out altogether.")

    @Argument(help: "The id of the device.") var device: DeviceID
    @Argument(help: ArgumentHelp("Such as site=s-3, role=inspector, group=north.", valueName: "name=value")) var grants: [GrantArgument]
    @OptionGroup var folder: DataFolder

    func validate() throws {
        if grants.isEmpty { throw ValidationError("name at least one grant, such as site=s-3") }
    }

    func run() throws {
        let now = SystemClocks().now().wall
        var (taken, missing): ([GrantArgument], [GrantArgument]) = ([], [])
        try folder.updateTokens { book in
            (taken, missing) = ([], [])
            for grant in grants {
                if book.takeBack(grant.kind, from: device, at: now) { taken.append(grant) } else { missing.append(grant) }
            }
        }
        if !taken.isEmpty { try Say.result("took \(taken.map(\.text).joined(separator: ", ")) back from \(device)") }
        guard missing.isEmpty else {
            throw Failure(
                66,
                "\(device) has no grant \(missing.map(\.text).joined(separator: ", ")) by a command; one of the entities file or of a "
                    + "record ends there. See: agenthub grants \(device)")
        }
    }
}

/// `agenthub grants [DEVICE]`: lists the grants, with those that were taken back.
struct GrantsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grants", abstract: "List the scopes, roles and groups of devices, and when they were given and taken back.")

    @Argument(help: "The id of a device; without it, all devices with a grant.") var device: DeviceID?
    @Option(
        help: ArgumentHelp("List the grants of this entities file, and not those of the settings in force.", valueName: "file"))
    var entities: String?
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    /// One line of the list.
    private struct Row {
        var device: DeviceID
        var grant: String
        var source: String
        var at: Timestamp?
        var revokedAt: Timestamp?
    }

    func run() throws {
        let commands = try commandRows()
        let rows = try fileRows() + commands
        if json {
            let list = rows.map { row in
                [
                    "device": .string(row.device.text), "grant": .string(row.grant), "source": .string(row.source),
                    "granted_at": row.at.map { .string($0.description) } ?? .null,
                    "revoked_at": row.revokedAt.map { .string($0.description) } ?? .null,
                ] as JSON
            }
            return try Say.result(JSON.array(list).json)
        }
        for row in rows {
            let since = row.at.map { "granted \($0)" } ?? "in the settings of entities"
            let end = row.revokedAt.map { "  taken back \($0)" } ?? ""
            try Say.result("\(row.device)  \(row.grant)  \(since)\(end)")
        }
        if rows.isEmpty { Say.error(device.map { "\($0) has no grants" } ?? "no device has a grant; see: agenthub grant --help") }
    }

    /// The grants of the file that is named, or of the settings that count.
    private func access() throws -> AccessBook {
        do {
            if let entities { return try EntitySettings.readHub(file: entities).access }
            return try folder.accessInForce()
        } catch let error as ConfigurationErrors {
            throw Failure(78, error.description)
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    private func fileRows() throws -> [Row] {
        try access().devices.filter { device == nil || $0.key == device }.sorted { $0.key < $1.key }.flatMap { device, grants in
            grants.listed.map { Row(device: device, grant: $0, source: "file") }
        }
    }

    private func commandRows() throws -> [Row] {
        let book = try folder.readTokens()
        return book.grantedDevices.filter { device == nil || $0 == device }.flatMap { device in
            book.grantHistory(of: device).map {
                Row(device: device, grant: $0.kind.description, source: "command", at: $0.at, revokedAt: $0.revokedAt)
            }
        }
    }
}

extension DataFolder {
    /// The grants of the entity settings that count; none where no settings were ever applied.
    ///
    /// - Throws: `ConfigurationErrors` when this program cannot read the settings, otherwise an error of the database.
    func accessInForce() throws -> AccessBook {
        // A server's database that no hub has used yet gets its tables here, as by any other command about tokens and grants.
        let newest = if let hub = try sharedHub() { try hub.newestEntities() } else { lacksHub ? nil : try inspector().entities() }
        return try newest.map { try EntitiesFile.settings(of: $0).access } ?? AccessBook()
    }
}

/// A grant as an operator writes it.
struct GrantArgument: ExpressibleByArgument {
    var kind: TokenBook.Grant.Kind
    var text: String { kind.description }

    init?(argument: String) {
        guard let kind = TokenBook.Grant.Kind(argument) else { return nil }
        self.kind = kind
    }
}

extension Grants {
    fileprivate var listed: [String] {
        scopes.sorted { $0.key < $1.key }.flatMap { field, values in values.map { "\(field)=\($0)" } } + roles.map { "role=" + $0 }
            + groups.map { "group=" + $0 }
    }
}
