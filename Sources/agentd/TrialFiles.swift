import Agent
import Logging
import SyncCore
import SyncLinux
import SyncYAML

/// `trial.json` and `proven.yaml` in the state folder: what is on trial, and over which configuration the hub was reached last.
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
                // Missing or torn, nothing is proven: then nothing is put back either.
                (try? DurableFiles(calls: LinuxFileCalls()).read(record, maxBytes: 4_096)).flatMap { try? JSONReader.read($0) }
            },
            keepRecord: { keep($0.bytes + [UInt8(ascii: "\n")], record) },
            proven: {
                guard case .success(let bytes) = ConfigurationFile.read(proven).contents else { return nil }
                // What was proven and does not read any more is nothing to go back to; the present configuration stays, and is tried.
                return try? LastGoodConfiguration.configuration(bytes, file: proven, accounts: SystemAccounts.accounts)
            },
            keepProven: { keep(Array(LastGoodConfiguration.text($0).utf8), proven) })
    }

    /// Its failure is no reason to stop: it only means that less is known after a restart.
    private func keep(_ bytes: [UInt8], _ path: String) {
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(bytes, to: path)
        } catch {
            log.warning("what is on trial was not written down", metadata: ["error": "\(error)"])
        }
    }
}
