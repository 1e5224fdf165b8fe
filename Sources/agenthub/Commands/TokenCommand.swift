import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub token add|list|revoke`: also beside a server that is running.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Give devices a token, and take it back.",
        subcommands: [AddToken.self, ListTokens.self, RevokeToken.self])
}

struct AddToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Make a token for a device and print it. It is shown only this once.",
        discussion: "A device may have several tokens, so that a new one can be put in place before the old one is revoked.")

    @Argument(help: "The id of the device.") var device: DeviceID
    @OptionGroup var folder: DataFolder

    func run() throws {
        do throws(LinuxError) {
            // The first token may come before the first start.
            if access(folder.data, F_OK) != 0 {
                try StateDirectory.open(folder.data, calls: LinuxFileCalls(), userID: geteuid()).close()
            }
        } catch {
            throw Failure(error)
        }
        var random = SystemRandomNumberGenerator()
        let token = try TokenFile(path: folder.tokens).update { book throws(Failure) in
            book.add(device, at: SystemClocks().now().wall, using: &random)
        }
        try Say.result(token)
    }
}

struct ListTokens: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the tokens, without their secrets.")

    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let entries = try TokenFile(path: folder.tokens).read().entries.sorted { ($0.device, $0.createdAt) < ($1.device, $1.createdAt) }
        if json {
            let list = entries.map { entry in
                [
                    "device": .string(entry.device.text), "token": .string(entry.name), "created_at": .string(entry.createdAt.description),
                    "revoked_at": entry.revokedAt.map { .string($0.description) } ?? .null,
                ] as JSON
            }
            return try Say.result(JSON.array(list).json)
        }
        for entry in entries {
            let state = entry.revokedAt.map { "revoked \($0)" } ?? "valid"
            try Say.result("\(entry.device)  \(entry.name)  created \(entry.createdAt)  \(state)")
        }
    }
}

struct RevokeToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Shut a device out: none of its present tokens is taken any more.")

    @Argument(help: "The id of the device.") var device: DeviceID
    @OptionGroup var folder: DataFolder

    func run() throws {
        let count = try TokenFile(path: folder.tokens).update { book throws(Failure) in
            book.revoke(device, at: SystemClocks().now().wall)
        }
        guard count > 0 else { throw Failure(66, "\(device) has no valid token") }
        Say.error("revoked \(count) token\(count == 1 ? "" : "s") of \(device)")
    }
}

extension Identifier: ExpressibleByArgument {
    package init?(argument: String) { self.init(argument) }
}
