import Glibc
import SyncCore
import SyncLinux

/// The socket of the hub that serves a folder, `hub.sock`. Commands that change its database do so through that hub.
struct HubSocket {
    private let path: String
    private let transport: CurlTransport

    /// The longest path of a Unix socket, bytes (unix(7)).
    static let longestPath = 107

    /// - Returns: `nil` when no hub answers there.
    static func connect(_ folder: DataFolder) throws(Failure) -> HubSocket? {
        let path = folder.socket
        guard path.utf8.count <= longestPath else { return nil }
        guard access(path, R_OK | W_OK) == 0 else {
            guard errno == EACCES else { return nil }
            throw Failure(77, "this user may not open \(path). Run the command as the hub's user: \(DataFolder.command(as: "agenthub"))")
        }
        let transport: CurlTransport
        do throws(LinuxError) { transport = try CurlTransport(name: "hub", idleConnections: 1) } catch { throw Failure(error) }
        let socket = HubSocket(path: path, transport: transport)
        return try socket.isServed() ? socket : nil
    }

    private init(path: String, transport: CurlTransport) {
        (self.path, self.transport) = (path, transport)
    }

    private func isServed() throws(Failure) -> Bool {
        switch exchange(.get, "/v1/operator/status", .none) {
        case .success(let answer):
            guard answer.status == 200 else { throw Failure(74, "\(path): \(Problem(answer).detail)") }
            return true
        case .failure(let error):
            // The file is that of a hub that has died.
            guard error.code != .unreachable, error.code != .unresolved else { return false }
            throw Failure(74, "\(path): \(error)")
        }
    }

    /// - Returns: The answer, or the reason why there is none. What was asked for may have been done even then.
    func post(_ target: String, _ body: [UInt8]) -> Result<HTTPResponse, TransportError> {
        exchange(.post, target, body.isEmpty ? .none : .bytes(body))
    }

    private func exchange(_ method: HTTPRequest.Method, _ target: String, _ body: HTTPRequest.Body) -> Result<HTTPResponse, TransportError>
    {
        var request = HTTPRequest(method, "http://hub\(target)", body: body, socketPath: path)
        // A large set of records takes its time, and so do the scopes of many records.
        (request.deadlines.firstByte, request.deadlines.idle, request.deadlines.total) = (nil, nil, nil)
        do throws(TransportError) {
            return .success(try transport.exchange(request))
        } catch {
            return .failure(error)
        }
    }

    func close() {
        transport.close()
    }
}

extension Problem {
    /// The problem of an answer that is no success.
    init(_ answer: HTTPResponse) {
        do throws(JSONError) {
            self.init(try JSONReader.read(answer.body))
        } catch {
            self.init("unknown", status: answer.status, detail: "the hub answered with status \(answer.status)")
        }
    }
}
