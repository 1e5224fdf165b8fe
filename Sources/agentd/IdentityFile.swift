import Glibc
import SyncCore
import SyncLinux
import SyncStore

/// `identity.json`: the proof, beside the database, that this state folder has been in use.
///
/// A missing or empty database is a first boot only if there is no such file; otherwise data was lost, and treating it as new would hide
/// that. The file also holds the highest acknowledged mutation at the last check, so that a database that came back shorter is noticed.
struct IdentityFile {
    let path: String
    private let files = DurableFiles(calls: LinuxFileCalls())

    init(stateFolder: String) {
        path = stateFolder + "/identity.json"
    }

    enum Content {
        /// There is no such file: this folder was never in use.
        case none
        case marker(StoreMarker)
        /// It cannot be read or understood. It is only known that the folder was in use.
        case damaged(LinuxError)

        /// The marker. A missing database is detected also when its name is unknown.
        var marker: StoreMarker? {
            switch self {
            case .none: nil
            case .marker(let marker): marker
            case .damaged: StoreMarker(replica: ReplicaID(trusted: "unknown"), acknowledged: 0)
            }
        }
    }

    func read() -> Content {
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try readTwice()
        } catch {
            return error.code == .missing ? .none : .damaged(error)
        }
        // The write below is atomic, so a torn or empty file means a damaged disk.
        guard let object = (try? JSONReader.read(bytes))?.object,
            let replica = object["replica"]?.text.flatMap({ ReplicaID($0) }), (0...(1 << 53)).contains(object["acknowledged"]?.int ?? 0)
        else {
            return .damaged(
                LinuxError(
                    .malformed, doing: "read the identity", path: path, expected: "{\"replica\":…,\"acknowledged\":…}"))
        }
        return .marker(StoreMarker(replica: replica, acknowledged: object["acknowledged"]?.int ?? 0))
    }

    /// Reads twice: a failed read mostly succeeds the second time, and then nothing is damaged.
    private func readTwice() throws(LinuxError) -> [UInt8] {
        do throws(LinuxError) {
            return try files.read(path, maxBytes: 4_096)
        } catch {
            guard error.code != .missing else { throw error }
            return try files.read(path, maxBytes: 4_096)
        }
    }

    /// Moves a damaged file aside for inspection, which frees the name.
    func moveAside() {
        rename(path, path + "-damaged")
    }

    func write(_ marker: StoreMarker) throws(LinuxError) {
        let json: JSON = ["replica": .string(marker.replica.text), "acknowledged": .int(marker.acknowledged), "version": 1]
        try files.write(json.bytes + [UInt8(ascii: "\n")], to: path)
    }
}
