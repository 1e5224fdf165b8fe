import SyncCore
package import SyncYAML

// A copy of the last good configuration. A power cut may leave a configuration file empty, full of zeros or truncated, weeks after it was
// edited. And a person who edits one may make a mistake and restart the agent remotely. A gateway on a mast must start all the same. So
// after each successful load the agent stores the configuration in one file beside its database (and where a start looks for it, when that
// is elsewhere). A start whose files are not accepted uses the copy, and the status says so. A flipped bit may even leave a valid
// configuration; the stamps of the files reveal it (``ConfigurationSource``).

/// The configuration to start with.
package enum ConfigurationStart: Sendable {
    case loaded(LoadedConfiguration)
    /// The files are not accepted, and the last good copy is in force. This must be shown prominently.
    case lastGood(LoadedConfiguration, ConfigurationErrors)
    /// The files are not accepted, and there is no good copy.
    case refused(ConfigurationErrors)
    /// The only fault is that the hub's address is not configured yet.
    case unconfigured(ConfigurationErrors)

    /// - Parameters:
    ///   - files: The main file and `conf.d`, see ``ConfigurationLoader/files(main:)``.
    ///   - lastGood: The kept copy; its absence is no error.
    package static func decide(
        files: [ConfigurationFile], lastGood: ConfigurationFile, accounts: Accounts
    ) -> ConfigurationStart {
        let attempt = ConfigurationAttempt(files, accounts: accounts)
        let flipped = lastGood.bytes.map { ConfigurationSource.damage(of: files, since: LastGoodConfiguration.sources($0)) } ?? []
        if let loaded = attempt.loaded, flipped.isEmpty { return .loaded(loaded) }
        let errors = ConfigurationErrors(flipped + attempt.errors)
        guard let bytes = lastGood.bytes else {
            return attempt.lacksOnlyHub ? .unconfigured(errors) : .refused(errors)
        }
        do throws(ConfigurationErrors) {
            let copy = try LastGoodConfiguration.read(bytes, file: lastGood.name, accounts: accounts)
            return .lastGood(copy, errors)
        } catch {
            return .refused(ConfigurationErrors(errors.errors + error.errors))
        }
    }
}

/// The text of the kept copy.
package enum LastGoodConfiguration {
    private static let title = "# The last configuration that agentd read without an error. Written by agentd itself.\n"
    private static let digestMark = "# sha256 of what follows: "
    private static let sourceMark = "# read from "

    /// The text of a copy with all values in force, defaults included, so that it means the same to a later version.
    ///
    /// - Parameter sources: The files that it was read from, one line each.
    package static func text(_ configuration: AgentConfiguration, sources: [ConfigurationSource] = []) -> String {
        let format = AgentConfiguration.format(accounts: Accounts(ownUser: 0, user: { _ in nil }, group: { _ in nil }))
        // A comment may contain only these characters.
        let plain = sources.filter { $0.name.utf8.allSatisfy { (0x20...0x7E).contains($0) } }
        let lines = plain.map { sourceMark + String(decoding: $0.json.bytes, as: UTF8.self) + "\n" }
        let settings = lines.joined() + YAMLWriter.text(format.write(configuration).object ?? [:])
        return title + digestMark + ConfigurationSource.digest(Array(settings.utf8)) + "\n" + settings
    }

    /// The configuration of a kept copy.
    package static func configuration(
        _ bytes: [UInt8], file: String, accounts: Accounts
    ) throws(ConfigurationErrors) -> AgentConfiguration {
        try read(bytes, file: file, accounts: accounts).configuration
    }

    /// - Throws: An error when the copy is damaged too, or names a group that this machine no longer has.
    static func read(
        _ bytes: [UInt8], file: String, accounts: Accounts
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        guard let settings = whole(bytes) else {
            throw ConfigurationErrors([ConfigurationError(file: file, problem: "this last good copy is damaged, too")])
        }
        var loaded = try ConfigurationLoader.read([ConfigurationFile(name: file, contents: .success(bytes))], accounts: accounts)
        loaded.sources = sources(in: settings)
        return loaded
    }

    /// The files that the configuration of a kept copy was read from; none if the copy is damaged, or of an earlier version.
    package static func sources(_ bytes: [UInt8]) -> [ConfigurationSource] { whole(bytes).map { sources(in: $0) } ?? [] }

    private static func sources(in settings: ArraySlice<UInt8>) -> [ConfigurationSource] {
        let mark = Array(sourceMark.utf8)
        // The digest matches, so an unreadable line was written by another version in another format.
        return settings.split(separator: UInt8(ascii: "\n")).prefix { $0.starts(with: mark) }.compactMap { line in
            // A line that is left out costs only the name of a source that people are shown.
            (try? JSONReader.read(Array(line.dropFirst(mark.count)))).flatMap { ConfigurationSource($0) }
        }
    }

    /// The text after the digest, if it matches the digest.
    private static func whole(_ bytes: [UInt8]) -> ArraySlice<UInt8>? {
        let head = Array((title + digestMark).utf8)
        let afterHead = bytes.dropFirst(head.count)
        let found = afterHead.prefix(65), settings = afterHead.dropFirst(65)
        let isWhole = bytes.starts(with: head) && (ConfigurationSource.digest(Array(settings)) + "\n").utf8.elementsEqual(found)
        return isWhole ? settings : nil
    }
}

extension ConfigurationFile {
    fileprivate var bytes: [UInt8]? {
        if case .success(let bytes) = contents { bytes } else { nil }
    }
}
