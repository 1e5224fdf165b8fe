import SyncCore
package import SyncYAML

// A power cut may leave a configuration file empty, full of zeros or cut in half, weeks after anybody touched it. A
// gateway on a mast must come up all the same. So after each successful load the agent keeps what it read, in one file
// beside its database; it is used when, and only when, the files look damaged rather than wrongly written, and the
// status says so.

/// What to start with.
package enum ConfigurationStart: Sendable {
    case loaded(LoadedConfiguration)
    /// The files are damaged: the last good copy is in force. To be shown loudly.
    case lastGood(LoadedConfiguration, damage: ConfigurationErrors)
    /// Somebody made a mistake, or there is no good copy: exit 78.
    case refused(ConfigurationErrors)

    /// - Parameters:
    ///   - files: The main file and `conf.d`, see ``ConfigurationLoader/files(main:)``.
    ///   - lastGood: The kept copy; its absence is no error.
    package static func decide(
        files: [ConfigurationFile], lastGood: ConfigurationFile, accounts: Accounts
    ) -> ConfigurationStart {
        let attempt = ConfigurationAttempt(files, accounts: accounts)
        if let loaded = attempt.loaded { return .loaded(loaded) }
        let errors = ConfigurationErrors(attempt.errors)
        guard attempt.looksDamaged, case .success(let bytes) = lastGood.contents else { return .refused(errors) }
        do throws(ConfigurationErrors) {
            let copy = try LastGoodConfiguration.read(bytes, file: lastGood.name, accounts: accounts)
            return .lastGood(copy, damage: errors)
        } catch {
            return .refused(ConfigurationErrors(errors.errors + error.errors))
        }
    }
}

/// The text of the kept copy.
package enum LastGoodConfiguration {
    private static let title = "# The last configuration that agentd read without an error. Written by agentd itself.\n"
    private static let digestMark = "# sha256 of what follows: "

    /// All values in force, defaults included, so that the copy means the same to a later version.
    package static func text(_ configuration: AgentConfiguration) -> String {
        let format = AgentConfiguration.format(accounts: Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil }))
        let settings = YAMLWriter.text(format.write(configuration).object ?? [:])
        return title + digestMark + digest(Array(settings.utf8)) + "\n" + settings
    }

    /// What a kept copy says.
    package static func configuration(
        _ bytes: [UInt8], file: String, accounts: Accounts
    ) throws(ConfigurationErrors) -> AgentConfiguration {
        try read(bytes, file: file, accounts: accounts).configuration
    }

    /// - Throws: When the copy is damaged too, or names what this machine no longer has (a group).
    static func read(
        _ bytes: [UInt8], file: String, accounts: Accounts
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        let head = Array((title + digestMark).utf8)
        let afterHead = bytes.dropFirst(head.count)
        let found = afterHead.prefix(65), settings = afterHead.dropFirst(65)
        guard bytes.starts(with: head), (digest(Array(settings)) + "\n").utf8.elementsEqual(found) else {
            throw ConfigurationErrors([ConfigurationError(file: file, problem: "this last good copy is damaged, too")])
        }
        return try ConfigurationLoader.read(
            [ConfigurationFile(name: file, contents: .success(bytes))], accounts: accounts)
    }

    private static func digest(_ bytes: [UInt8]) -> String {
        SHA256.hash(bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
