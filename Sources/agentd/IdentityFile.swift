import SyncCore
import SyncLinux
import SyncStore

/// `identity.json`: the proof, beside the database, that this state folder has been in use.
///
/// A missing or empty database is a first boot only where there is no such file; otherwise something was lost, and
/// pretending otherwise would hide it. It also keeps the highest mutation that was acknowledged when the agent last
/// looked, so that a database that came back shorter is noticed.
struct IdentityFile {
    let path: String
    private let files = DurableFiles(calls: LinuxFileCalls())

    init(stateFolder: String) {
        path = stateFolder + "/identity.json"
    }

    /// - Returns: `nil` when there is no such file.
    /// - Throws: When there is one that cannot be read or understood: then nothing is known, and nobody may guess.
    func read() throws(LinuxError) -> StoreMarker? {
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try files.read(path, maxBytes: 4_096)
        } catch {
            if error.code == .missing { return nil }
            throw error
        }
        // A torn file says no more than a missing one; the write below is atomic, so this is a damaged disk.
        guard let object = (try? JSONReader.read(bytes))?.object,
            let replica = object["replica"]?.text.flatMap({ ReplicaID($0) })
        else {
            throw LinuxError(.malformed, doing: "read the identity", path: path, expected: "{\"replica\":…,\"acknowledged\":…}")
        }
        return StoreMarker(replica: replica, acknowledged: object["acknowledged"]?.int ?? 0)
    }

    func write(_ marker: StoreMarker) throws(LinuxError) {
        let json: JSON = ["replica": .string(marker.replica.text), "acknowledged": .int(marker.acknowledged), "version": 1]
        try files.write(json.bytes + [UInt8(ascii: "\n")], to: path)
    }
}
