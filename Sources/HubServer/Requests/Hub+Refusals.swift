import SyncCore

extension Hub {
    /// Runs a step of an endpoint; its errors end the request.
    func reading<T>(_ body: () throws(Problem) -> T) throws(HubRefusal) -> T {
        do throws(Problem) { return try body() } catch { throw HubRefusal(error) }
    }

    func querying<T>(_ body: () throws(DatabaseError) -> T) throws(HubRefusal) -> T {
        do throws(DatabaseError) { return try body() } catch { throw HubRefusal(error) }
    }

    static let notFound = Problem("not-found", status: 404, detail: "there is nothing at this path")
    static let wrongMethod = Problem("method-not-allowed", status: 405, detail: "this path takes another method")
    static func wrongMethod(at endpoint: Endpoint) -> HubResponse {
        var response = HubResponse(wrongMethod)
        response.headers["Allow"] = endpoint.methods.joined(separator: ", ")
        return response
    }
    static let bodyTooLarge = Problem(
        "too-large", status: 413, detail: "a request may have at most \(Limits.hubRequestBytes) bytes, inflated")

    /// The detail of the failure stays here; a device can only wait.
    static func unavailable(_ error: DatabaseError) -> Problem {
        let detail = "the hub cannot use its database at the moment (\(error.kind.rawValue))"
        return switch error.kind {
        case .busy, .contended: Problem("overloaded", status: 503, detail: detail, retryAfter: 2)
        // A server that takes over from another one does so within seconds.
        case .lost: Problem("maintenance", status: 503, detail: detail, retryAfter: 5)
        case .full, .io, .corrupt, .readOnly, .cannotOpen, .foreign, .other:
            Problem("maintenance", status: 503, detail: detail, retryAfter: 30)
        }
    }
}
