import Agent
import Glibc
import Logging
import SyncCore
import SyncLinux
import SyncYAML

/// The kept copies of the last good configuration.
///
/// One stands in the state folder. Where that is says the configuration, which is what is damaged when the copy is needed; so
/// when it is elsewhere than usual, another copy stands in the usual folder, under a name that says of which main file it is:
/// two agents of one machine must not start with each other's.
struct LastGoodFiles: Sendable {
    /// systemd's word, else the default folder.
    private let usual: String
    /// `last-good-0a1b2c3d.yaml`, by the first digits of the SHA-256 of the main file's path.
    private let ownName: String

    private static let name = "/last-good.yaml"

    init(config: String) {
        // systemd names several folders with colons in between.
        usual = getenv("STATE_DIRECTORY").flatMap { String(cString: $0).split(separator: ":").first.map(String.init) } ?? "/var/lib/agentd"
        ownName = "/last-good-\(ConfigurationSource.digest(Array(Self.absolute(config).utf8)).prefix(8)).yaml"
    }

    private static func absolute(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }

    /// The copy to start with, if one is needed.
    var found: ConfigurationFile {
        let own = ConfigurationFile.read(usual + ownName)
        if case .success = own.contents { return own }
        return ConfigurationFile.read(usual + Self.name)
    }

    /// - Parameter stateFolder: `store.path`.
    func keep(_ loaded: LoadedConfiguration, in stateFolder: String, _ log: Logger) {
        let bytes = Array(LastGoodConfiguration.text(loaded.configuration, sources: loaded.sources).utf8)
        write(bytes, stateFolder + Self.name, log)
        if Self.isSame(stateFolder, usual) {
            // From a time when it was elsewhere: it would be found first.
            unlink(usual + ownName)
        } else if access(usual, F_OK) == 0 {
            write(bytes, usual + ownName, log)
        } else {
            log.notice(
                "a damaged configuration will stop the start: no copy of it stands where a start looks for one",
                metadata: ["folder": "\(usual)", "expected": "store.path there, or STATE_DIRECTORY set to a folder that is there"])
        }
    }

    private func write(_ bytes: [UInt8], _ path: String, _ log: Logger) {
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(bytes, to: path)
        } catch {
            log.warning("no copy of the configuration was kept", metadata: ["error": "\(error)"])
        }
    }

    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }
}
