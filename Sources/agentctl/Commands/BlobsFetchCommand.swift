import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

extension BlobsCommand {
    struct Fetch: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Fetch a file from the hub.",
            discussion: """
                A record on this device must refer to the file. The download obeys the rules for metered links, battery and budgets. \
                To see why it waits: agentctl why ID. An interrupted download continues where it stopped. --output writes the file when \
                it is complete and its digest is right.

                agentctl blobs fetch sha256:9b1c... --wait 5m --output door.jpg
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The file: its digest as records show it, or its id such as b-31.") var blob: String
        @Option(help: "Wait up to this time until it is here, such as 30s, 5m or 2h.") var wait: String?
        @Option(help: "Write its bytes to this file, or to standard output with -. Waits 5m unless --wait says something else.")
        var output: String?

        func validate() throws {
            if let wait, Self.time(wait) == nil { throw ValidationError("--wait: expected a time from 1s to 24h, such as 30s, 5m or 2h.") }
            if let output, output.isEmpty { throw ValidationError("--output: expected the name of a file, or -.") }
        }

        func run(_ session: Session) async throws -> Int32 {
            let name = try BlobsCommand.name(blob)
            let asked = try await session.client.fetchBlob(name)
            guard let id = BlobID(asked.value.id) else { throw CommandFailure.failed("answer", "the agent answered without an id") }
            let longest = wait.flatMap(Self.time) ?? (output == nil ? nil : .seconds(300))
            var last = asked
            if let longest { last = try await BlobWatch.wait(for: id, atMost: longest, session) ?? asked }
            if let output {
                guard last.value.isKept else {
                    let why = last.value.error.map { ": " + PlainText.safe($0) } ?? "; agentctl why \(id) says why it waits"
                    throw CommandFailure.failed("blob-fetching", "nothing was written: the file \(id) is not here yet" + why)
                }
                try await write(id, to: output, session)
            }
            if session.isJSON, output != "-" {
                Output.json(last.body)
            } else if output != "-" {
                Output.line("\(last.value.id) \(last.value.state)" + (last.value.error.map { ": " + PlainText.safe($0) } ?? ""))
            }
            if last.value.isKept { return 0 }
            return longest == nil && last.value.state == FetchState.fetching.word ? 0 : 1
        }

        /// The bytes go into a file beside the target, which gets its name when it is whole.
        private func write(_ id: BlobID, to output: String, _ session: Session) async throws {
            let writer = try FileOutput(output)
            try await session.client.blobContent(.id(id)) { writer.write($0) }
            try writer.finish()
        }

        /// A time such as `30s`, `5m` or `2h`, from 1 s to a day.
        private static func time(_ text: String) -> Duration? {
            guard let last = text.last, let unit = ["s": 1, "m": 60, "h": 3_600][String(last)],
                let count = Tus.count(String(text.dropLast())),
                count > 0, count <= 86_400 / Int64(unit)
            else { return nil }
            return .seconds(count * Int64(unit))
        }
    }

    struct Pin: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Keep a file on this device, and fetch it first if necessary.",
            discussion: "The agent does not remove a pinned file to make room for others. agentctl blobs unpin ends that.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The file: its digest as records show it, or its id such as b-31.") var blob: String

        func run(_ session: Session) async throws -> Int32 {
            show(try await session.client.pinBlob(try BlobsCommand.name(blob)), session)
        }
    }

    struct Unpin: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "Allow the agent to remove a file again to make room for others.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The file: its digest as records show it, or its id such as b-31.") var blob: String

        func run(_ session: Session) async throws -> Int32 {
            show(try await session.client.unpinBlob(try BlobsCommand.name(blob)), session)
        }
    }

    static func name(_ text: String) throws(CommandFailure) -> BlobName {
        guard let name = BlobName(text) else {
            throw CommandFailure.usage(
                "\(PlainText.safe(text)) names no file: expected an id such as b-31, or sha256: and 64 hexadecimal digits")
        }
        return name
    }
}

private func show(_ reply: Reply<BlobItem>, _ session: Session) -> Int32 {
    if session.isJSON {
        Output.json(reply.body)
    } else {
        Output.line("\(reply.value.id) \(reply.value.state)" + (reply.value.isPinned ? ", pinned" : ""))
    }
    return 0
}

/// Writes received bytes to a file or to standard output.
private final class FileOutput: @unchecked Sendable {
    // Unchecked: used on the transport's thread during the transfer, and on the caller's after it.
    private let target: String
    private let part: String
    private let descriptor: Int32
    private var failure: Int32?

    init(_ target: String) throws(CommandFailure) {
        self.target = target
        part = target + ".part-\(getpid())"
        guard target != "-" else {
            descriptor = STDOUT_FILENO
            return
        }
        descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard descriptor >= 0 else { throw Self.failed("create", part, errno) }
    }

    deinit {
        guard target != "-" else { return }
        close(descriptor)
        unlink(part)
    }

    /// - Returns: `false` when the bytes cannot be written.
    func write(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                failure = errno
                return false
            }
            rest = rest.dropFirst(count)
        }
        return true
    }

    func finish() throws(CommandFailure) {
        if let failure { throw Self.failed("write", target, failure) }
        guard target != "-" else { return }
        guard rename(part, target) == 0 else { throw Self.failed("rename", part, errno) }
    }

    private static func failed(_ verb: String, _ path: String, _ number: Int32) -> CommandFailure {
        CommandFailure.failed("file", "cannot \(verb) \(PlainText.safe(path)): \(Errno(number: number).description)")
    }
}
