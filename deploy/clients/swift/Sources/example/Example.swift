// An app in Swift that writes, reads and follows records over the socket of agentd, with the library EdgeSync.
//
//   example write ENTITY ID DATA KEY    stores the fields of DATA (JSON) in a record
//   example read ENTITY ID              prints the record
//   example query ENTITY FIELD VALUE    prints the records whose field has the value (JSON), the newest first
//   example wait MUTATION               waits until the hub has a change
//   example file FILE                   gives a file to the agent and reads it back
//   example follow FILE                 prints the changes of records, for ever; FILE keeps the position
//
// AGENTD_SOCKET is the path of the socket. While the agent is away or busy, a request is repeated for DEADLINE seconds (30).
// Exit status: 0 done, 1 the agent refused it, 2 the agent cannot be reached, 64 wrong usage.

import EdgeSync
import Glibc

@main
struct Example {
    let agent: AgentClient

    static func main() async {
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            let seconds = getenv("DEADLINE").flatMap { Int(String(cString: $0)) } ?? 30
            // A deadline of 0 seconds still needs the time of one try.
            let example = Example(agent: try AgentClient(deadline: max(.milliseconds(100), .seconds(seconds))))
            guard try await example.run(words) else {
                complain(
                    "usage: example write ENTITY ID DATA KEY | read ENTITY ID | query ENTITY FIELD VALUE | wait MUTATION"
                        + " | file FILE | follow FILE")
                exit(64)
            }
        } catch let error as EdgeSyncError {
            complain("example: \(error)")
            exit(error.isTransient || error.kind == .deadlinePassed ? 2 : 1)
        } catch {
            complain("example: \(error)")
            exit(1)
        }
    }

    /// - Returns: `false` for wrong usage.
    private func run(_ words: [String]) async throws -> Bool {
        switch (words.first, words.count) {
        case ("write", 5): try await write(words[1], words[2], words[3], key: words[4])
        case ("read", 3): print(try await agent.record(words[1], words[2]).raw)
        case ("query", 4): try await query(words[1], words[2], JSONValue(json: words[3]))
        case ("wait", 2): print(try await agent.wait(for: words[1]).requireDelivered().outcome)
        case ("file", 2): try await file(words[1])
        case ("follow", 2): try await follow(words[1])
        default: return false
        }
        return true
    }

    /// The key makes the repeats one change, also the repeats of a later run of this program.
    private func write(_ entity: String, _ id: String, _ data: String, key: String) async throws {
        guard let data = try JSONValue(json: data).object else { throw Complaint("DATA must be a JSON object") }
        var change = Mutation.upsert(entity, id, data)
        change.key = key
        print(try await agent.enqueue(change).id)
    }

    private func query(_ entity: String, _ field: String, _ value: JSONValue) async throws {
        let query = Query(entity, where: .field(field).equals(value), sort: ["-updated_at"])
        for try await record in agent.records(query) { print(record.id, record.data ?? [:]) }
    }

    private func file(_ path: String) async throws {
        let file = try await agent.addFile(at: path)
        let bytes = try await agent.bytes(of: file.id)
        print(file.id, file.state, bytes.count)
    }

    /// Handles each event first and stores its position then. The next run goes on behind it.
    private func follow(_ path: String) async throws {
        let position = try readText(path).flatMap { FeedEvent.Position($0) }
        for try await event in agent.follow([.record], after: position) {
            switch event.content {
            // The app must read now what it needs: what happened before is not in the feed.
            case .reload(isGap: false): break
            default:
                print(event.position, event.type, event.raw)
                fflush(nil)
            }
            try replace(path, with: event.position.description)
        }
    }
}

struct Complaint: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// The text of a small file; `nil` if there is none.
func readText(_ path: String) throws -> String? {
    guard let file = fopen(path, "r") else {
        if errno == ENOENT { return nil }
        throw Complaint("\(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes.prefix(count), as: UTF8.self)
}

/// Replaces a file at once, so that a crash leaves the old text or the new one.
func replace(_ path: String, with text: String) throws {
    guard let file = fopen(path + ".new", "w") else { throw Complaint("\(path).new: \(String(cString: strerror(errno)))") }
    fputs(text, file)
    guard fclose(file) == 0, rename(path + ".new", path) == 0 else {
        throw Complaint("\(path): \(String(cString: strerror(errno)))")
    }
}

func complain(_ sentence: String) {
    let bytes = Array((sentence + "\n").utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
}
