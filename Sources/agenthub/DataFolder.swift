import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// The folder of one hub: `hub.db` (and its log), `tokens`, `mark`, and two lock files.
struct DataFolder: ParsableArguments {
    @Option(name: .long, help: "The folder of the hub: database and tokens.")
    var data: String

    var database: String { data + "/hub.db" }
    var tokens: String { data + "/tokens" }
    /// How far the database has come; see `HubMark`.
    var mark: String { data + "/mark" }

    /// - Throws: 66 when there is no hub here.
    func inspector() throws(Failure) -> HubInspector {
        guard access(database, F_OK) == 0 else { throw Failure(66, "there is no hub in \(data)") }
        do throws(HubError) {
            return try HubInspector(file: database)
        } catch {
            throw Failure(error)
        }
    }

    func readMark() -> HubMark? {
        // Missing or damaged, it cannot warn; the database itself is looked at by SQLite.
        let bytes = try? DurableFiles(calls: LinuxFileCalls()).read(mark, maxBytes: 1_024)
        return bytes.flatMap { HubMark(reading: String(decoding: $0, as: UTF8.self)) }
    }

    func write(_ mark: HubMark) throws(LinuxError) {
        try DurableFiles(calls: LinuxFileCalls()).write(Array(mark.text.utf8), to: self.mark)
    }
}
