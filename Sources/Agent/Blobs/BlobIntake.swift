import LocalAPI
import SyncCore
import SyncHTTP

/// Receives one file. The agent's loop reads the socket, the files' thread writes and hashes, and the next piece is read when the one
/// before is being written. So a file of any size costs one piece of memory.
///
/// The order makes a crash harmless: bytes under a temporary name, their digest, `fsync`, the final name, and then the row.
final class BlobIntake: @unchecked Sendable {
    // Unchecked: `file` belongs to the files' thread, the rest to the agent's loop or is constant.
    private let call: LocalCall
    private let agent: Agent
    private let folder: any BlobFolder
    private let name: String
    private let limit: Int64
    private let expected: BlobDigest?
    private var file: (any IncomingCopy)?

    init(_ call: LocalCall, _ agent: Agent, _ folder: any BlobFolder, name: String, limit: Int64, expected: BlobDigest?) {
        self.call = call
        self.agent = agent
        self.folder = folder
        self.name = name
        self.limit = limit
        self.expected = expected
    }

    // MARK: On the agent's loop

    /// Receives a file whose bytes are the body.
    func stream() {
        call.exchange.readBody { [self] part in
            switch part {
            case .bytes(let bytes):
                onThread { () throws(BlobError) in
                    try self.opened().append(bytes)
                } then: {
                    self.stream()
                }
            case .end: finish()
            case .failed: discard()
            }
        }
    }

    /// Receives a file that belongs to another user, which is opened on the files' thread.
    func copy(_ open: @escaping @Sendable () throws(BlobError) -> BlobSource) {
        onThread { () throws(BlobError) in
            try self.opened().copy(try open(), atMost: self.limit)
        } then: {
            self.finish()
        }
    }

    private func finish() {
        agent.assumeIsolated { agent in
            agent.blobs.thread.run { [self] in
                guard let file, file.offset > 0 else {
                    return fail(LocalProblem.validation.problem("a file must have at least one byte"))
                }
                let (digest, size) = (file.digest(), file.offset)
                if let expected, expected != digest {
                    return fail(
                        LocalProblem.validation.problem(
                            "the bytes are \(digest), and the request said \(expected)",
                            errors: [Problem.Pointer("", "Repr-Digest does not match")]))
                }
                onLoop { agent in
                    // From here on these bytes must not be removed as the remains of another file.
                    agent.blobs.arriving[digest, default: 0] += 1
                    agent.blobs.thread.run { [self] in keep(digest, size) }
                }
            }
        }
    }

    private func discard() {
        agent.assumeIsolated { agent in
            agent.blobs.thread.run { [self] in
                drop()
                onLoop { $0.ended(self) }
            }
        }
    }

    // MARK: On the files' thread

    private func opened() throws(BlobError) -> any IncomingCopy {
        if let file { return file }
        let made = try folder.openFile(incoming: name, at: 0)
        file = made
        return made
    }

    private func onThread(
        _ work: @escaping @Sendable () throws(BlobError) -> Void, then: @escaping @Sendable () -> Void
    ) {
        agent.assumeIsolated { agent in
            agent.blobs.thread.run { [self] in
                do throws(BlobError) {
                    try work()
                    onLoop { _ in then() }
                } catch {
                    fail(Self.problem(error))
                }
            }
        }
    }

    private func keep(_ digest: BlobDigest, _ size: Int64) {
        do throws(BlobError) {
            try file?.keep(as: digest)
            file = nil
            onLoop { $0.arrived(digest, size, self) }
        } catch {
            onLoop { $0.blobs.arriving[digest] = nil }
            fail(Self.problem(error))
        }
    }

    private func fail(_ problem: Problem) {
        drop()
        onLoop { agent in
            agent.ended(self)
            agent.metrics.refused(problem.code)
            self.call.refuse(problem)
        }
    }

    private func drop() {
        file?.discard()
        file = nil
    }

    private func onLoop(_ work: @escaping @Sendable (isolated Agent) -> Void) {
        agent.onLoop(work)
    }

    // MARK: The answer

    var request: LocalCall { call }
    /// Number of announced bytes.
    var announced: Int64 { Int64(call.exchange.request.contentLength ?? 0) }

    private static func problem(_ error: BlobError) -> Problem {
        switch error.code {
        case .full:
            // Room for the bytes was checked before: that keeps store.min_free, but says nothing about inodes.
            LocalProblem.diskFull.problem(
                "the disk of the agent has no room for another file: if it has more than store.min_free left, inodes or a quota are "
                    + "used up (df -i)",
                retryAfter: 60)
        case .tooLarge: LocalProblem.tooLarge.problem(error.detail)
        case .refused, .notFound: LocalProblem.validation.problem(error.description)
        case .damaged, .io, .away, .altered: LocalProblem.readOnly.problem("the agent cannot write to its disk", retryAfter: 30)
        }
    }
}
