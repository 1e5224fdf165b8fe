import SyncCore
import Synchronization

/// Sends each request only after its largest possible size is booked in the ledger (``UsageReservation``).
final class BookedTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let ledger = Mutex<Ledger>(Ledger())

    private struct Ledger {
        weak var agent: Agent?
    }

    init(_ base: any HTTPTransport) {
        self.base = base
    }

    func book(by agent: Agent) {
        ledger.withLock { $0.agent = agent }
    }

    func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
        let base = base
        return try await booked(request) { () async throws(TransportError) in try await base.send(request) }
    }

    func stream(
        _ request: HTTPRequest, onHead: @escaping @Sendable (_ status: Int, _ headers: HTTPHeaders) -> Void,
        onBody: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(TransportError) -> HTTPResponse {
        let base = base
        return try await booked(request) { () async throws(TransportError) in
            try await base.stream(request, onHead: onHead, onBody: onBody)
        }
    }

    private func booked(
        _ request: HTTPRequest, _ carry: @Sendable () async throws(TransportError) -> HTTPResponse
    ) async throws(TransportError) -> HTTPResponse {
        let agent = ledger.withLock(\.agent), most = Self.most(of: request)
        await agent?.book(most)
        let result: Result<HTTPResponse, TransportError>, traffic: Traffic
        do throws(TransportError) {
            let response = try await carry()
            (result, traffic) = (.success(response), response.traffic)
        } catch {
            (result, traffic) = (.failure(error), error.traffic)
        }
        await agent?.endBooking(most, moved: .init(up: Int64(clamping: traffic.wireUp), down: Int64(clamping: traffic.wireDown)))
        return try result.get()
    }

    /// Largest possible traffic of a request: heads, a handshake, and the headers of TCP and IP, which are some 60 bytes for each 1,400,
    /// with acknowledgements in the other direction.
    private static func most(of request: HTTPRequest) -> UsageReservation.Bytes {
        let up = Int64(clamping: request.body.count ?? 0), down = Int64(clamping: request.expectedBytes)
        return .init(up: up + up / 16 + down / 32 + overhead, down: down + down / 16 + up / 32 + overhead)
    }

    private static let overhead: Int64 = 6 << 10
}
