import ArgumentParser
import HubServer
import SyncCore
import SyncLinux

/// `agenthub token add|enrol|list|readmit|revoke`: manages tokens, also beside a running server.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Make, list and revoke the tokens of devices.",
        subcommands: [AddToken.self, EnrolToken.self, ListTokens.self, ReadmitDevice.self, RevokeToken.self])
}

struct AddToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Make a token for a device and print it. It is shown only this once.",
        discussion: "A device may have several tokens, so that a new one can be put in place before the old one is revoked.")

    @Argument(help: .device) var device: DeviceID
    @Option(help: ArgumentHelp("Days until it expires; default: never.", valueName: "days")) var days: Int?
    @OptionGroup var folder: DataFolder

    func validate() throws {
        if let days, !(1...3_650).contains(days) { throw ValidationError("--days: expected 1 to 3650") }
    }

    func run() throws {
        try Say.result(try folder.addToken(device, .device, life: days.map { .seconds(86_400) * $0 }))
    }
}

struct EnrolToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enrol", abstract: "Make a one-time token with which a device gets its own, and print it.",
        discussion:
            "Put it into the token file of the device. At its first contact the device exchanges it for a token of its own, which it then "
            + "refreshes in time.")

    @Argument(help: .device) var device: DeviceID
    @Option(help: ArgumentHelp("Hours in which it can be used.", valueName: "hours")) var hours = 168
    @OptionGroup var folder: DataFolder

    func validate() throws {
        guard (1...8_760).contains(hours) else { throw ValidationError("--hours: expected 1 to 8760") }
    }

    func run() throws {
        try Say.result(try folder.addToken(device, .enrolment, life: .seconds(3_600) * hours))
    }
}

extension DataFolder {
    /// Makes a token. A new device may not have the name of a scope that others were granted: a value that is its id is its own scope, so
    /// it would receive their records. Nor may it have the name of the hub as a writer: its changes would count as those of the hub.
    ///
    /// - Throws: 64 for such a name. A device that has a token already keeps its name, and gets a warning.
    fileprivate func addToken(_ device: DeviceID, _ use: TokenBook.Entry.Use, life: Duration?) throws -> String {
        var random = SystemRandomNumberGenerator()
        let hub = try sharedHub()
        let holder = holderInSettings(of: device, by: hub)
        var (token, warning, fault): (String, String?, Failure?) = ("", nil, nil)
        try updateTokens(by: hub) { book in
            (token, warning, fault) = ("", nil, nil)
            if device == .hub {
                warning = "\(device) is the name of the hub as a writer, so what this device writes counts as written by the hub"
                fault = Failure(64, "\(device) is the name of the hub as a writer; give the device another id")
            } else if let holder = holder ?? book.holder(ofNameOf: device).map({ "\($0)" }) {
                let text =
                    "\(device) is a value that was granted to \(holder). A value that is the id of a device is its own scope, so the "
                    + "device receives such records without a grant"
                warning = text
                fault = Failure(64, text + "; give the device another id, or take the grant back")
            }
            if fault != nil, !book.hasToken(device) { return }
            fault = nil
            token = book.add(device, use, life: life, at: SystemClocks().now().wall, using: &random)
        }
        if let fault { throw fault }
        if let warning { Say.error("warning: \(warning)") }
        return token
    }

    /// A device must get its token also where the settings or their database cannot be read, so that is no failure.
    private func holderInSettings(of device: DeviceID, by hub: Hub?) -> String? {
        settingsIfReadable(by: hub, without: "the id was not compared with the grants of the entity settings")?.access.holder(
            of: device.text, besides: device)
    }
}

struct ListTokens: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the tokens, without their secrets.")

    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        try folder.requireTokens()
        let now = SystemClocks().now().wall
        let entries = try folder.readTokens().entries.filter(\.isToken).sorted { ($0.device, $0.createdAt) < ($1.device, $1.createdAt) }
        if json {
            let list = entries.map { entry in
                [
                    "device": .string(entry.device.text), "token": .string(entry.name), "created_at": .string(entry.createdAt.description),
                    "revoked_at": .optional(entry.revokedAt?.description),
                    "ends_at": .optional(entry.endsAt?.description), "use": .string(entry.use.rawValue),
                ] as JSON
            }
            return try Say.result(JSON.array(list).json)
        }
        for entry in entries {
            let end = entry.endsAt.map { entry.isOver(at: now) ? "ended \($0)" : "valid until \($0)" } ?? "valid"
            let state = (entry.revokedAt.map { "revoked \($0)" } ?? end) + (entry.use == .enrolment ? "  for enrolment" : "")
            try Say.result("\(entry.device)  \(entry.name)  created \(entry.createdAt)  \(state)")
        }
    }
}

struct RevokeToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Revoke all present tokens of a device.")

    @Argument(help: .device) var device: DeviceID
    @OptionGroup var folder: DataFolder

    func run() throws {
        try folder.requireTokens()
        var count = 0
        try folder.updateTokens { book in count = book.revoke(device, at: SystemClocks().now().wall) }
        guard count > 0 else { throw Failure(66, "\(device) has no valid token. To list the tokens: agenthub token list") }
        Say.error("revoked \(PlainText.count(count, "token")) of \(device)")
    }
}

struct ReadmitDevice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "readmit", abstract: "Let a device reconnect whose token has expired.",
        discussion:
            "At its next contact the device exchanges the expired token for the next one, so no visit is necessary. "
            + "agenthub serve --token-grace allows the same to all devices for a time.")

    @Argument(help: .device) var device: DeviceID
    @Option(help: ArgumentHelp("Days in which it may reconnect.", valueName: "days")) var days = 30
    @OptionGroup var folder: DataFolder

    func validate() throws {
        guard (1...3_650).contains(days) else { throw ValidationError("--days: expected 1 to 3650") }
    }

    func run() throws {
        try folder.requireTokens()
        var isKnown = false
        let now = SystemClocks().now().wall
        try folder.updateTokens { book in isKnown = book.readmit(device, until: now.advanced(by: .seconds(86_400) * days), at: now) }
        guard isKnown else {
            throw Failure(66, "\(device) has no expired token that was not revoked. List the tokens: agenthub token list")
        }
        Say.error("\(device) may reconnect within \(PlainText.count(days, "day"))")
    }
}

extension ArgumentHelp {
    static let device: ArgumentHelp = "The id of the device: 1 to 64 characters out of A-Z a-z 0-9 . _ : -."
    static let entity: ArgumentHelp = "The entity, by its name: 1 to 64 characters out of A-Z a-z 0-9 . _ : -."
}

extension Identifier: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}
