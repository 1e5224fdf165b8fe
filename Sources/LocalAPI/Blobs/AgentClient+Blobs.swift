package import SyncCore

extension AgentClient {
    /// Passes a file by its descriptor, where the transport supports that; see ``DescriptorSender``.
    ///
    /// - Parameter send: Sends the head with the descriptor attached and returns the answer.
    package func addBlob(
        _ query: BlobAddQuery, type: String,
        by send: (_ head: [UInt8]) async throws(TransportError) -> HTTPResponse
    ) async throws(AgentError) -> Reply<BlobItem> {
        let route = Route.addBlob(query)
        let target = RouteTarget(route)
        let head =
            "\(target.method.rawValue) \(target.target) HTTP/1.1\r\nHost: localhost\r\n\(BlobSourceKind.header): fd\r\n"
            + "Content-Type: \(type)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await send(Array(head.utf8))
        } catch {
            throw AgentError.transport(Self.doing(route), socket: socketPath, error)
        }
        return try Self.read(response, route) { BlobItem($0) }
    }

    /// Sends the bytes of a file as they become available.
    ///
    /// - Parameter next: Called on the transport's thread; returns at most the given count of bytes, `nil` at the end.
    package func addBlob(
        _ query: BlobAddQuery, type: String, next: @escaping @Sendable (_ upTo: Int) -> [UInt8]?
    ) async throws(AgentError) -> Reply<BlobItem> {
        let route = Route.addBlob(query)
        var request = request(route, headers: ["Content-Type": type])
        request.body = .pieces(next)
        request.deadlines.firstByte = .seconds(600)
        request.deadlines.idle = nil
        request.deadlines.total = nil
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await transport.send(request)
        } catch {
            throw AgentError.transport(Self.doing(route), socket: socketPath, error)
        }
        return try Self.read(response, route) { BlobItem($0) }
    }

    package func blobs(_ query: BlobListQuery) async throws(AgentError) -> Reply<BlobListAnswer> {
        try await call(.blobs(query)) { BlobListAnswer($0) }
    }

    package func blob(_ id: BlobID) async throws(AgentError) -> Reply<BlobItem> {
        try await call(.blob(id)) { BlobItem($0) }
    }

    /// Has a file come from the hub. The answer does not wait for its bytes.
    package func fetchBlob(_ name: BlobName) async throws(AgentError) -> Reply<BlobItem> {
        try await call(.fetchBlob(name)) { BlobItem($0) }
    }

    package func pinBlob(_ name: BlobName) async throws(AgentError) -> Reply<BlobItem> {
        try await call(.pinBlob(name)) { BlobItem($0) }
    }

    package func unpinBlob(_ name: BlobName) async throws(AgentError) -> Reply<BlobItem> {
        try await call(.unpinBlob(name)) { BlobItem($0) }
    }

    /// Receives the bytes of a file as they come.
    ///
    /// - Parameter take: Called on the transport's thread; returns `false` to stop.
    /// - Throws: `.transport` also for an answer that does not reach its end.
    package func blobContent(_ name: BlobName, take: @escaping @Sendable ([UInt8]) -> Bool) async throws(AgentError) {
        let route = Route.blobContent(name)
        var request = request(route)
        request.maxResponseBytes = .max
        request.deadlines.firstByte = .seconds(60)
        request.deadlines.total = nil
        let error = ErrorBody()
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await transport.stream(
                request, onHead: { status, _ in error.begin(isError: status != 200) },
                onBody: { bytes in error.takes(bytes) ? true : take(bytes) })
        } catch {
            throw AgentError.transport(Self.doing(route), socket: socketPath, error)
        }
        guard response.status != 200 else { return }
        var refused = response
        refused.body = error.bytes
        throw AgentError.refused(Self.doing(route), Self.problem(refused))
    }

    package func retryBlob(_ id: BlobID) async throws(AgentError) -> Reply<BlobItem> {
        try await call(.retryBlob(id)) { BlobItem($0) }
    }

    /// - Parameter isForced: Also remove a file that a record shows and whose bytes the server does not have; they are lost then.
    /// - Returns: `removed`; `missing` when bytes were lost; `uploaded` when only the local copy is gone.
    package func removeBlob(_ id: BlobID, isForced: Bool = false) async throws(AgentError) -> Reply<String> {
        try await call(.removeBlob(id, isForced: isForced)) { AnswerReader($0).text("state") }
    }

    private static func read<Value>(
        _ response: HTTPResponse, _ route: Route, _ read: (JSON) -> Value?
    ) throws(AgentError) -> Reply<Value> {
        let doing = doing(route)
        guard (200...299).contains(response.status) else { throw AgentError.refused(doing, problem(response)) }
        // Every fault of the answer is the same error.
        guard let json = try? JSONReader.read(response.body, limits: .answer), let value = read(json) else {
            throw AgentError.badAnswer(doing, "the answer has an unexpected form")
        }
        return Reply(status: response.status, value: value, body: response.body)
    }
}

/// The body of a refusal, of which a limited part is kept.
private final class ErrorBody: @unchecked Sendable {
    // Unchecked: used on the transport's thread during the transfer, and by the caller after it.
    private(set) var bytes: [UInt8] = []
    private var isError = false

    func begin(isError: Bool) { self.isError = isError }

    /// - Returns: `false` for bytes of the file.
    func takes(_ part: [UInt8]) -> Bool {
        guard isError else { return false }
        bytes += part.prefix(max(0, (64 << 10) - bytes.count))
        return true
    }
}
