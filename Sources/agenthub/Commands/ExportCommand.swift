import ArgumentParser
import Glibc
import HubServer
import SyncCore

/// `agenthub export ENTITY`: prints the records of an entity as NDJSON, also beside a running server.
struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Print the records of an entity, one JSON object a line, by id.")

    @Argument(help: .entity) var entity: EntityName
    @OptionGroup var folder: DataFolder

    func run() throws {
        let inspector = try folder.inspector()
        var waiting: [UInt8] = []
        var isOpen = true
        var count = 0
        do throws(HubError) {
            try inspector.export(entity) { line in
                count += 1
                waiting += line
                waiting.append(UInt8(ascii: "\n"))
                if waiting.count >= 1 << 16 {
                    isOpen = Say.write(waiting)
                    waiting.removeAll(keepingCapacity: true)
                }
                return isOpen
            }
            if count == 0 {
                let known = try inspector.entities().map(\.text).joined(separator: ", ")
                Say.error(
                    "there are no records of \(entity)" + (known.isEmpty ? ", nor of any other entity" : ". There are records of \(known)"))
            }
        } catch {
            throw Failure(error)
        }
        // `export … | head` is no failure: the reader has closed the pipe.
        guard isOpen && Say.write(waiting) || errno == EPIPE else {
            throw Failure(74, "write to standard output: \(String(cString: strerror(errno)))")
        }
    }
}
