import SyncCore
import SyncLinux
import Testing

/// A conformer of `HTTPTransport` that talks to real sockets: the contract runs once for each.
struct TransportCase: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let make: @Sendable () throws -> any HTTPTransport

    static let all = [TransportCase(testDescription: "CurlTransport") { try CurlTransport() }]
}

extension CannedServer {
    func request(
        _ method: HTTPRequest.Method = .get, _ path: String = "/", body: HTTPRequest.Body = .none,
        _ change: (inout HTTPRequest) -> Void = { _ in }
    ) -> HTTPRequest {
        var request = HTTPRequest(method, url + path, body: body, socketPath: socketPath)
        change(&request)
        return request
    }
}

extension HTTPTransport {
    /// The error that a request must end with.
    func failure(
        _ request: HTTPRequest, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> TransportError {
        do throws(TransportError) {
            let response = try await send(request)
            Issue.record("status \(response.status) instead of an error", sourceLocation: sourceLocation)
            throw TransportError(.cancelled, doing: "expect an error", detail: "none came")
        } catch {
            return error
        }
    }
}

extension String {
    var bytes: [UInt8] { Array(utf8) }
}
