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
            "A device receives a record when one of the record's scopes is one of the device's. Records that exist already come with its "
            + "next pull. A scope whose value is the id of the device belongs to the device without a grant.")

    @Argument(help: .device) var device: DeviceID
    @Argument(help: GrantArgument.help) var grants: [GrantArgument]
    @OptionGroup var folder: DataFolder

    func validate() throws {
        if grants.isEmpty { throw ValidationError("name at least one grant, such as site=s-3") }
    }

    func run() throws {
        let (now, user) = (SystemClocks().now().wall, operatorName())
        let hub = try folder.sharedHub()
        let settings = settings(by: hub)
        let named = namedDevices(settings)
        let wanted = grants.distinct
        var (given, there): ([GrantArgument], [GrantArgument]) = ([], [])
        var fault: Failure?
        var isKnown = settings?.access.devices[device] != nil
        try folder.updateTokens(by: hub) { book in
            (given, there, fault) = ([], [], nil)
            let before = book
            if book.entries.contains(where: { $0.device == device }) { isKnown = true }
            for grant in wanted {
                if case .scope(let scope) = grant.kind, scope.value != device.text,
                    named.contains(scope.value) || book.entries.contains(where: { $0.device.text == scope.value })
                {
                    fault = Failure(64, "\(scope) belongs to the device \(scope.value), because the value is its id")
                    break
                }
                switch book.grant(grant.kind, to: device, by: user, at: now) {
                case .given: given.append(grant)
                case .hadBefore: there.append(grant)
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
        if !given.isEmpty { try Say.result("granted \(given.texts) to \(device)") }
        if !there.isEmpty { Say.error("\(device) had \(there.texts) before") }
        for hint in settings.map({ wanted.hints($0) }) ?? [] { Say.error(hint) }
        if !isKnown, !hasConnected(at: now) {
            Say.error("\(device) has no token yet. To make one: agenthub token enrol \(device)")
        }
    }

    /// A device must get its grants also where the settings or their database cannot be read, so that is no failure. An operator is told
    /// only where the values are not compared with the ids of devices.
    private func settings(by hub: Hub?) -> EntityDifference.Settings? {
        if values.isEmpty {
            // Only the hints about names are left out then.
            return try? folder.settingsInForce(by: hub)
        }
        return folder.settingsIfReadable(by: hub, without: "the values were not compared with the devices of the entity settings")
    }

    private var values: [String] {
        grants.compactMap { grant in
            if case .scope(let scope) = grant.kind, scope.value != device.text { scope.value } else { nil }
        }
    }

    /// The granted values that the entity settings name as devices, which may have no token yet.
    private func namedDevices(_ settings: EntityDifference.Settings?) -> Set<String> {
        Set(values.filter { value in DeviceID(value).map { settings?.access.devices[$0] != nil } ?? false })
    }

    /// A device may have connected without a token, by a certificate. Where the database cannot be read, it counts as one that has.
    private func hasConnected(at now: Timestamp) -> Bool {
        if folder.lacksHub { return false }
        // The answer decides about a hint only.
        let found = try? folder.inspector().devices(device, at: now)
        return found.map { $0.contains { $0.lastSeen != nil } } ?? true
    }
}

/// `agenthub revoke DEVICE site=s-3 …`
struct RevokeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Take scopes, roles and groups back from a device.",
        discussion:
            "With its next pull the records of the scope leave the device. Its unsent changes of them stay on the device, parked. "
            + "agenthub token revoke shuts a device out altogether.")

    @Argument(help: .device) var device: DeviceID
    @Argument(help: GrantArgument.help) var grants: [GrantArgument]
    @OptionGroup var folder: DataFolder

    func validate() throws {
        if grants.isEmpty { throw ValidationError("name at least one grant, such as site=s-3") }
    }

    func run() throws {
        try folder.requireTokens()
        let (now, user) = (SystemClocks().now().wall, operatorName())
        var (taken, missing): ([GrantArgument], [GrantArgument]) = ([], [])
        let wanted = grants.distinct
        try folder.updateTokens { book in
            (taken, missing) = ([], [])
            for grant in wanted {
                if book.takeBack(grant.kind, from: device, by: user, at: now) { taken.append(grant) } else { missing.append(grant) }
            }
        }
        if !taken.isEmpty { try Say.result("took \(taken.texts) back from \(device)") }
        guard missing.isEmpty else {
            throw Failure(
                66,
                "\(device) has no grant \(missing.texts) by a command. A grant of the entities file ends when a file without it is "
                    + "applied, and a grant by a record ends with the record. To see where each grant comes from: agenthub grants "
                    + "\(device)")
        }
    }
}

/// `agenthub grants [DEVICE]`: lists the grants, with those of commands that were taken back.
struct GrantsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grants",
        abstract: "List the scopes, roles and groups of devices, with who gave them and took them back.",
        discussion: """
            Grants have three sources: the settings of entities, records of the entities in grants_from, and commands. Of a grant by a \
            command the list has the times and the users, also after it was taken back. The settings and records show what is in force: \
            agenthub entities history lists who applied which settings when, and a grant by a record ends with the record.
            """)

    @Argument(help: "The id of a device; without it, all devices with a grant.") var device: DeviceID?
    @Option(
        help: ArgumentHelp(
            "List the grants of this entities file in place of those of the settings in force. Records and commands are those of the hub.",
            valueName: "file"))
    var entities: String?
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        // The grants of a hub that was never started are in the file of its tokens.
        if entities == nil { try folder.requireTokens() }
        let book = try folder.readTokens()
        do {
            let (settings, records) = try entities.map { (try read($0), recordsIfReadable()) } ?? inForce()
            var rows = fileRows(settings) + records.map { GrantRow($0) } + commandRows(book, settings.access)
            for index in rows.indices {
                rows[index].isIdle = rows[index].field.map { settings.hints?.hint(field: $0, in: .file) != nil } ?? false
            }
            if json {
                try Say.result(JSON.array(rows.map(\.json)).json)
            } else {
                for row in rows { try Say.result(PlainText.safe(row.line)) }
                tellPast(rows, settings)
            }
            tellDropped(book)
        } catch let error as ConfigurationErrors {
            throw Failure(78, error.description)
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    /// The settings whose grants are listed.
    private struct Settings {
        var access = AccessBook()
        var hints: GrantHints?
        /// `nil`: no settings were ever applied.
        var source: GrantOrigin?
    }

    /// A file may be in force that this version would refuse as a new one, and then its grants count.
    private func read(_ path: String) throws(ConfigurationErrors) -> Settings {
        let settings = try EntitySettings.readHub(inForce: .read(path)).settings
        return Settings(access: settings.access, hints: GrantHints(settings), source: .file(path))
    }

    private func inForce() throws -> (Settings, [RecordGrant]) {
        guard !folder.lacksHub else { return (Settings(), []) }
        let hub = try folder.inspector()
        let records = try hub.recordGrants(of: device)
        guard let newest = try hub.entities() else { return (Settings(), records) }
        let inForce = try EntitiesFile.settings(of: newest)
        let source = GrantOrigin.settings(generation: newest.number)
        return (Settings(access: inForce.access, hints: GrantHints(inForce), source: source), records)
    }

    /// The grants of a file are listed also beside a database that cannot be read, such as one of another version.
    private func recordsIfReadable() -> [RecordGrant] {
        do {
            return folder.lacksHub ? [] : try folder.inspector().recordGrants(of: device)
        } catch {
            Say.error("the grants that records give are not listed, because the database cannot be read: \(error)")
            return []
        }
    }

    private func fileRows(_ settings: Settings) -> [GrantRow] {
        guard let source = settings.source else { return [] }
        return settings.access.devices.filter { device == nil || $0.key == device }.sorted { $0.key < $1.key }.flatMap { device, grants in
            grants.kinds.map { GrantRow(device: device, kind: $0, source: source, includes: $0.includes(in: settings.access)) }
        }
    }

    private func commandRows(_ book: TokenBook, _ access: AccessBook) -> [GrantRow] {
        book.grantedDevices.filter { device == nil || $0 == device }.flatMap { device in
            book.grantHistory(of: device).map { grant in
                // A group may have had other values when a grant was in force that was taken back.
                let includes = grant.revokedAt == nil ? grant.kind.includes(in: access) : nil
                return GrantRow(device: device, kind: grant.kind, source: .command(grant), includes: includes)
            }
        }
    }

    /// Says where the past of grants is that have none here.
    private func tellPast(_ rows: [GrantRow], _ settings: Settings) {
        if rows.isEmpty {
            Say.error(
                device.map { "\($0) has no grants. To list all devices with grants: agenthub grants" }
                    ?? "no device has a grant; see: agenthub grant --help")
        }
        guard case .settings? = settings.source, rows.isEmpty || rows.contains(where: \.isOfFile) else { return }
        Say.error("grants of the settings have no times of their own; to see who applied which settings when: agenthub entities history")
    }

    private func tellDropped(_ book: TokenBook) {
        for device in book.grantedDevices where self.device == nil || self.device == device {
            switch book.pastGrants(of: device) {
            case .complete: break
            case .full:
                Say.error(
                    "\(device) has \(TokenBook.pastGrantsMax) grants that were taken back, and no more are kept: older ones may be missing")
            case .cut:
                Say.error("older grants of \(device) are missing: only \(TokenBook.pastGrantsMax) that were taken back are kept")
            }
        }
    }
}

/// One grant of the list.
private struct GrantRow {
    var device: DeviceID
    var kind: TokenBook.Grant.Kind
    var source: GrantOrigin
    /// The scopes and roles of a group that is in force and that the settings have; `nil` for all else.
    var includes: [String]?
    /// No entity has the field of the granted scope.
    var isIdle = false

    var field: String? { if case .scope(let scope) = kind { scope.field } else { nil } }

    var isOfFile: Bool {
        switch source {
        case .settings, .file: true
        case .command, .record: false
        }
    }

    var line: String { "\(device)  \(kind)\(values)  \(source)" }

    private var values: String {
        if let includes { return " (\(includes.joined(separator: ", ")))" }
        if case .group = kind, isInForce { return " (no group of the settings)" }
        if isIdle, isInForce { return " (no entity has this scope field)" }
        return ""
    }

    private var isInForce: Bool {
        if case .command(let grant) = source { return grant.revokedAt == nil }
        return true
    }

    /// Rows of all sources have the same members.
    var json: JSON {
        var object: JSONObject = ["device": .string(device.text), "grant": .string(kind.description)]
        for member in source.json.members { object[member.name.text] = member.value }
        object["includes"] = includes.map { JSON.list($0) } ?? .null
        return .object(object)
    }
}

extension GrantRow {
    fileprivate init(_ grant: RecordGrant) {
        self.init(device: grant.device, kind: .scope(grant.scope), source: .record(grant.record))
    }
}

extension DataFolder {
    /// The entity settings that count; empty ones where none were ever applied.
    ///
    /// - Parameter hub: One that ``sharedHub(_:)`` has opened.
    /// - Throws: `ConfigurationErrors` when this program cannot read the settings, otherwise an error of the database.
    func settingsInForce(by hub: Hub?) throws -> EntityDifference.Settings {
        let newest = if let hub { try hub.newestEntities() } else { lacksHub ? nil : try inspector().entities() }
        return try newest.map { try EntitiesFile.settings(of: $0) } ?? (RuleBook(), AccessBook())
    }

    /// The same for a command that works also where the settings cannot be read: the operator is told what it left out.
    ///
    /// - Parameter omission: The comparison that was not made, as a clause.
    func settingsIfReadable(by hub: Hub?, without omission: String) -> EntityDifference.Settings? {
        do {
            return try settingsInForce(by: hub)
        } catch {
            Say.error("\(omission): \(error)")
            return nil
        }
    }
}

/// A grant as an operator writes it.
struct GrantArgument: ExpressibleByArgument {
    static let help = ArgumentHelp("One value each, such as: site=s-3 site=s-4 role=inspector group=north", valueName: "name=value")

    var kind: TokenBook.Grant.Kind
    var text: String { kind.description }

    init?(argument: String) {
        guard let kind = TokenBook.Grant.Kind(argument) else { return nil }
        self.kind = kind
    }
}

extension [GrantArgument] {
    /// Each grant once, in the order of the command line.
    fileprivate var distinct: [GrantArgument] {
        var seen: Set<TokenBook.Grant.Kind> = []
        return filter { seen.insert($0.kind).inserted }
    }

    fileprivate var texts: String { map(\.text).joined(separator: ", ") }

    /// Sentences about grants that have no effect, each once.
    fileprivate func hints(_ settings: EntityDifference.Settings) -> [String] {
        let hints = GrantHints(settings)
        var found: [String] = []
        for grant in self {
            var texts = [grant.kind.hint(hints)]
            if case .scope(let scope) = grant.kind, scope.value.contains(",") {
                texts.append(
                    "\(PlainText.safe(scope.value)) is one value. Several values are given as several arguments, such as site=s-3 site=s-4")
            }
            for case let text? in texts where !found.contains(text) { found.append(text) }
        }
        return found
    }
}

extension TokenBook.Grant.Kind {
    /// A sentence for an operator if the grant has no effect.
    fileprivate func hint(_ hints: GrantHints) -> String? {
        switch self {
        case .scope(let scope): hints.hint(field: scope.field, in: .command)
        case .role(let role): hints.hint(role: role)
        case .group(let group): hints.hint(group: group)
        }
    }

    /// The scopes and roles that a group stands for; `nil` where it is no group of the settings.
    fileprivate func includes(in access: AccessBook) -> [String]? {
        guard case .group(let group) = self else { return nil }
        return access.groups[group]?.kinds.map(\.description)
    }
}

extension Grants {
    fileprivate var kinds: [TokenBook.Grant.Kind] {
        scopes.sorted { $0.key < $1.key }.flatMap { field, values in values.map { .scope(Scope(field, $0)) } }
            + roles.map { .role($0) } + groups.map { .group($0) }
    }
}
