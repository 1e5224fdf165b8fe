import Agent
import Logging
import SyncCore
import SyncLinux
import SyncYAML

/// `trial.json` and `proven.yaml` in the state folder: the settings on trial, and the configuration over which the hub was reached last.
struct TrialFiles: Sendable {
    private let folder: String
    private let log: Logger

    init(stateFolder: String, _ log: Logger) {
        folder = stateFolder
        self.log = log
    }

    var keeper: TrialKeeper {
        let (record, proven) = (folder + "/trial.json", folder + "/proven.yaml")
        return TrialKeeper(
            record: {
                // With a missing or torn file nothing is proven, so nothing is restored either.
                (try? DurableFiles(calls: LinuxFileCalls()).read(record, maxBytes: 4_096)).flatMap { try? JSONReader.read($0) }
            },
            keepRecord: { keep($0.bytes + [UInt8(ascii: "\n")], record) },
            proven: {
                guard case .success(let bytes) = ConfigurationFile.read(proven).contents else { return nil }
                // A proven configuration that cannot be read any more cannot be restored; the present one stays and is tried.
                return try? LastGoodConfiguration.configuration(bytes, file: proven, accounts: SystemAccounts.accounts)
            },
            keepProven: { keep(Array(LastGoodConfiguration.text($0).utf8), proven) })
    }

    /// Stores a file. A failure does not stop the agent: it only means that less is known after a restart.
    private func keep(_ bytes: [UInt8], _ path: String) {
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(bytes, to: path)
        } catch {
            log.warning("the trial of the configuration was not stored", metadata: ["error": "\(error)"])
        }
    }
}
