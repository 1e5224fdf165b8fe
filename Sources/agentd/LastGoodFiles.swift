import Agent
import Glibc
import Logging
import SyncCore
import SyncLinux
import SyncYAML

/// The kept copies of the last good configuration.
///
/// One is in the state folder. The configuration names that folder, and the configuration is damaged when the copy is needed. So when the
/// state folder is not the usual one, another copy is in the usual folder. Its name identifies the main file, because two agents of one
/// machine must not start with each other's copy.
struct LastGoodFiles: Sendable {
    /// The folder that systemd names, otherwise the default one.
    private let usual: String
    /// Name of the copy, such as `last-good-0a1b2c3d.yaml`, from the first digits of the SHA-256 of the main file's path.
    private let ownName: String

    private static let name = "/last-good.yaml"

    init(config: String) {
        // systemd separates several folders with colons.
        usual = getenv("STATE_DIRECTORY").flatMap { String(cString: $0).split(separator: ":").first.map(String.init) } ?? "/var/lib/agentd"
        ownName = "/last-good-\(ConfigurationSource.digest(Array(Self.absolute(config).utf8)).prefix(8)).yaml"
    }

    private static func absolute(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }

    /// The copy for a start, if one is needed.
    var found: ConfigurationFile {
        let own = ConfigurationFile.read(usual + ownName)
        if case .success = own.contents { return own }
        return ConfigurationFile.read(usual + Self.name)
    }

    /// - Parameter stateFolder: The value of `store.path`.
    func keep(_ loaded: LoadedConfiguration, in stateFolder: String, _ log: Logger) {
        let bytes = Array(LastGoodConfiguration.text(loaded.configuration, sources: loaded.sources).utf8)
        write(bytes, stateFolder + Self.name, log)
        if Self.isSame(stateFolder, usual) {
            // A copy from a time when the state folder was elsewhere: it would be found first.
            unlink(usual + ownName)
        } else if access(usual, F_OK) == 0 {
            write(bytes, usual + ownName, log)
        } else {
            log.notice(
                "no copy of the configuration is kept in the usual state folder: if the files get damaged, agentd cannot start",
                metadata: ["folder": "\(usual)", "expected": "store.path in that folder, or STATE_DIRECTORY set to an existing folder"])
        }
    }

    private func write(_ bytes: [UInt8], _ path: String, _ log: Logger) {
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(bytes, to: path)
        } catch {
            log.warning("the copy of the configuration was not stored", metadata: ["error": "\(error)"])
        }
    }

    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }
}
