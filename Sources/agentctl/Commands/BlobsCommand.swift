import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

struct BlobsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blobs",
        abstract: "Add, fetch, list, show, pin, retry or remove files.",
        subcommands: [Add.self, Fetch.self, List.self, Show.self, Pin.self, Unpin.self, Retry.self, Remove.self],
        defaultSubcommand: List.self)

    struct Add: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give the agent a file to store and upload.",
            discussion: """
                The agent makes its own copy before it answers, so the file may change afterwards. With --for and --field \
                a field of a record refers to it: at once as a placeholder, and as uploaded when the hub has the bytes. The same \
                bytes twice are one blob.

                agentctl blobs add photo.jpg --for inspections/i-7 --field photo
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The file, or - for standard input.") var file: String
        @Option(name: .customLong("for"), help: "Record that refers to it, as ENTITY/ID. It is created if it does not exist.")
        var record: String?
        @Option(help: "Field of that record.") var field: String?
        @Option(help: "Media type, such as image/jpeg. Default: by the extension of the name.") var type: String?
        @Option(help: "Name under which others see the file. Default: its own name.") var name: String?
        @Option(help: "Priority of the change to the record: critical, normal or bulk. Default: the entity's.") var priority: Priority?
        @Option(help: "Idempotency key of the change to the record, so that the command can be repeated.") var key: String?
        @Flag(help: "Wait until it is uploaded, with a progress bar.") var watch = false

        func validate() throws {
            if key != nil, record == nil { throw ValidationError("--key needs --for.") }
            if (record == nil) != (field == nil) { throw ValidationError("--for and --field belong together.") }
            if let record, Self.read(record) == nil { throw ValidationError("--for: expected ENTITY/ID, such as audits/a-17.") }
            if let type, !BlobAddQuery.isType(type) { throw ValidationError("--type: expected a media type such as image/jpeg.") }
            if let name, !BlobAddQuery.isName(name) { throw ValidationError("--name: expected a name without slashes.") }
        }

        func run(_ session: Session) async throws -> Int32 {
            let own = file == "-" ? nil : file.split(separator: "/").last.map { String($0) }
            let query = BlobAddQuery(filename: name ?? own.flatMap { BlobAddQuery.isName($0) ? $0 : nil } ?? "")
            let type = type ?? Self.type(of: query.filename)
            let added = try await add(session, query, type)
            var mutation: Reply<EnqueueAnswer>?
            if let name = record.flatMap(Self.read), let field {
                var link = JSONObject()
                link["field"] = .string(field)
                link["blob"] = .string(added.value.id)
                mutation = try await session.client.enqueue(
                    NewMutation(.upsert, name.entity, name.id, priority: priority, blobs: [.object(link)]), key: key)
            }
            if !session.isJSON {
                Output.line(
                    "\(added.value.id)  \(SizeText.readable(added.value.size))  \(added.value.digest)"
                        + (added.status == 200 ? "  (already stored)" : ""))
                if let mutation { Output.line("\(mutation.value.id) \(mutation.value.state)") }
            }
            guard watch, let id = BlobID(added.value.id) else {
                if session.isJSON { Output.json(added.body) }
                return 0
            }
            return try await BlobWatch.follow(id, session)
        }

        private func add(_ session: Session, _ query: BlobAddQuery, _ type: String) async throws -> Reply<BlobItem> {
            let input = try InputFile(file)
            guard input.size != nil, let sender = input.descriptor else {
                let pieces = InputPieces(input)
                return try await session.client.addBlob(query, type: type) { pieces.next(upTo: $0) }
            }
            let socket = DescriptorSender(socketPath: session.client.socketPath)
            // The descriptor belongs to the input and must stay open until the agent has it.
            defer { withExtendedLifetime(input) {} }
            return try await session.client.addBlob(query, type: type) { (head) async throws(TransportError) -> HTTPResponse in
                try socket.send(head, with: sender)
            }
        }

        static func read(_ text: String) -> RecordName? {
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2, let entity = EntityName(String(parts[0])), let id = RecordID(String(parts[1])) else { return nil }
            return RecordName(entity, id)
        }

        /// The type by the extension, for common photos and machine files; other names have none.
        static func type(of name: String) -> String {
            let known = [
                "jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "heic": "image/heic", "webp": "image/webp",
                "gif": "image/gif", "tif": "image/tiff", "tiff": "image/tiff", "pdf": "application/pdf", "mp4": "video/mp4",
                "mov": "video/quicktime", "wav": "audio/wav", "mp3": "audio/mpeg", "txt": "text/plain", "csv": "text/csv",
                "json": "application/json", "xml": "application/xml", "zip": "application/zip", "gz": "application/gzip",
            ]
            guard let ending = name.split(separator: ".").last, name.contains(".") else { return "application/octet-stream" }
            return known[ending.lowercased()] ?? "application/octet-stream"
        }
    }

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "List the files and their progress, oldest first.")

        @OptionGroup var global: GlobalOptions
        @Option(
            help: """
                Only files in these states, separated by commas: pending, uploading, verifying, uploaded, failed, missing, fetching or \
                fetched.
                """)
        var state: String?
        @Option(help: "Only files after this number.") var after: Int64 = 0
        @Option(help: "Number of files.") var limit: Int = MutationListQuery.limitDefault

        private var states: [String]? { state?.split(separator: ",").map { String($0) }.filter { BlobListState.words.contains($0) } }

        func validate() throws {
            if let state, states?.count != state.split(separator: ",", omittingEmptySubsequences: false).count {
                throw ValidationError("--state: expected " + BlobListState.words.joined(separator: ", ") + ".")
            }
            guard (1...MutationListQuery.limitMax).contains(limit), after >= 0 else {
                throw ValidationError("--limit: expected 1 to \(MutationListQuery.limitMax); --after: 0 or more.")
            }
        }

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.blobs(BlobListQuery(states: states, after: after, limit: limit))
            if session.isJSON {
                Output.json(reply.body)
            } else {
                let view = View()
                let items = reply.value.items
                Output.list(view.isTerminal ? BlobsScreen.list(items, width: view.width) : items.map(BlobsScreen.line), nothing: "no files")
                if let next = reply.value.next { Output.note("there is more: agentctl blobs list --after \(next)") }
            }
            return 0
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "Show one file.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The blob's id, such as b-31.") var id: String
        @Flag(help: "Wait until it is uploaded, with a progress bar.") var watch = false

        func run(_ session: Session) async throws -> Int32 {
            let id = try BlobsCommand.id(id)
            if watch { return try await BlobWatch.follow(id, session) }
            let reply = try await session.client.blob(id)
            if session.isJSON {
                Output.json(reply.body)
            } else {
                for line in BlobsScreen.show(reply.value, width: View().width) { Output.line(line) }
            }
            return 0
        }
    }

    struct Retry: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "Retry the upload of a file that has failed.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The blob's id, such as b-31.") var id: String

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.retryBlob(try BlobsCommand.id(id))
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(reply.value.id) \(reply.value.state)") }
            return 0
        }
    }

    struct Remove: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a file from this device.",
            discussion: """
                A file is not removed if an open change refers to it, or a record does and the upload has not ended: its bytes \
                exist nowhere else. --force gives them up. The file is then listed as missing, and the same file can be added \
                again.
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The blob's id, such as b-31.") var id: String
        @Flag(help: "Also if a record refers to it and its bytes exist nowhere else.") var force = false

        func run(_ session: Session) async throws -> Int32 {
            let id = try BlobsCommand.id(id)
            let reply = try await session.client.removeBlob(id, isForced: force)
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(id) \(reply.value)") }
            return 0
        }
    }

    static func id(_ text: String) throws(CommandFailure) -> BlobID {
        guard let id = BlobID(text) else {
            throw CommandFailure.usage("\(PlainText.safe(text)) is no id of a blob: expected one such as b-31")
        }
        return id
    }
}

/// Follows one upload to its end.
enum BlobWatch {
    static func follow(_ id: BlobID, _ session: Session) async throws -> Int32 {
        let isTerminal = Environment.isTerminal(STDERR_FILENO)
        while true {
            let reply = try await session.client.blob(id)
            let item = reply.value
            if isTerminal { Output.talk("\r" + bar(item) + "\u{1B}[K") }
            switch item.state {
            case BlobState.uploaded.rawValue, BlobState.failed.rawValue, BlobState.missing.rawValue, FetchState.fetched.word:
                if isTerminal { Output.talk("\n") }
                if session.isJSON {
                    Output.json(reply.body)
                } else {
                    Output.line("\(item.id) \(item.state)" + (item.error.map { ": " + PlainText.safe($0) } ?? ""))
                }
                return item.state == BlobState.uploaded.rawValue ? 0 : 1
            default: CallingThread.pause(.milliseconds(500))
            }
        }
    }

    /// Waits until a file from the hub is here, or was set aside, with a progress bar.
    ///
    /// - Returns: The last answer; `nil` when the agent gave none.
    static func wait(for id: BlobID, atMost time: Duration, _ session: Session) async throws -> Reply<BlobItem>? {
        let isTerminal = Environment.isTerminal(STDERR_FILENO)
        let end = SystemClocks().now().instant.advanced(by: time)
        defer { if isTerminal { Output.talk("\n") } }
        while true {
            let reply = try await session.client.blob(id)
            if isTerminal { Output.talk("\r" + bar(reply.value) + "\u{1B}[K") }
            let isOver = reply.value.isKept || reply.value.state != FetchState.fetching.word
            if isOver || SystemClocks().now().instant >= end { return reply }
            CallingThread.pause(.milliseconds(500))
        }
    }

    private static func bar(_ item: BlobItem) -> String {
        let filled = item.percent * 30 / 100
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: 30 - filled)
        let why = item.deferral.map { " (\($0.reason))" } ?? ""
        return "[\(bar)] \(item.percent) %  \(SizeText.readable(item.offset)) of \(SizeText.readable(item.size))  \(item.state)\(why)"
    }
}

/// Passes standard input as the body of a request.
private final class InputPieces: Sendable {
    private let input: InputFile

    init(_ input: InputFile) { self.input = input }

    func next(upTo count: Int) -> [UInt8]? {
        while true {
            switch input.read(upTo: count) {
            case .bytes(let bytes): return bytes
            case .nothingYet: continue
            // A body that ends too early would look complete; an empty piece breaks the request instead.
            case .failed: return []
            case .end: return nil
            }
        }
    }
}
