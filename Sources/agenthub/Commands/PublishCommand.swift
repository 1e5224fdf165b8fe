import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub publish ENTITY FILE`: publishes data of a back office, such as forms and catalogues. It works on a folder while no hub serves
/// it, because only one process may write an SQLite file; on a server's database it works at any time.
struct PublishCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish records of an entity, such as forms. Devices get them with their next sync.",
        discussion:
            "Each line is {\"id\":\"…\",\"data\":{…}}. Without data, or with null, the record is deleted. The whole file is read "
            + "before anything is written. With --data no hub may be running. With --database hubs may run.")

    @Argument(help: "The name of the entity.") var entity: EntityName
    @Argument(help: "NDJSON file.") var file: String
    @OptionGroup var folder: DataFolder

    private static let fileBytesMax = 64 << 20

    func run() throws {
        let lines = try readLines()
        do {
            if let hub = try folder.sharedHub() {
                try publish(lines, hub)
            } else {
                let state = try StateDirectory.open(folder.folder, calls: LinuxFileCalls(), userID: geteuid())
                defer { state.close() }
                let hub = try Hub(.file(folder.file), settings: .adopting, random: SeededRandom(seed: systemRandomSeed()))
                try publish(lines, hub)
                hub.checkpoint()
            }
        } catch let error as LinuxError {
            throw Failure(error)
        } catch let error as HubError {
            throw Failure(error)
        }
        try Say.result("\(PlainText.count(lines.count, "record")) of \(entity)")
    }

    private func publish(_ lines: [(RecordID, JSONObject?)], _ hub: Hub) throws(HubError) {
        for (id, data) in lines { try hub.publish(RecordName(entity, id), data, at: SystemClocks().now().wall) }
    }

    private func readLines() throws(Failure) -> [(RecordID, JSONObject?)] {
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try DurableFiles(calls: LinuxFileCalls()).read(file, maxBytes: Self.fileBytesMax)
        } catch {
            throw Failure(error)
        }
        var lines: [(RecordID, JSONObject?)] = []
        for (index, line) in bytes.split(separator: UInt8(ascii: "\n")).enumerated() {
            // A malformed line is refused with its number, before anything is published.
            guard let object = (try? JSONReader.read(Array(line)))?.object, let id = object["id"]?.text.flatMap({ RecordID($0) }) else {
                throw Failure(65, "\(file):\(index + 1): expected {\"id\":\"…\",\"data\":{…}}")
            }
            let data = object["data"] ?? .null
            guard data.isNull || data.object != nil else { throw Failure(65, "\(file):\(index + 1): data must be an object or null") }
            lines.append((id, data.object))
        }
        return lines
    }
}
