package import SyncCore

// Obtains the device's token, and renews it (PROTOCOL A10).
extension HubClient {
    /// Exchanges the one-time token for the device's own, stores that durably, and only then reports success.
    ///
    /// - Returns: The obstacle; `nil` when the token is stored. `traffic` receives the cost.
    func enroll(_ token: String, _ request: HTTPRequest, _ traffic: inout Traffic) async -> Result<HTTPResponse, TransportError>? {
        var request = request
        request.method = .post
        request.url = baseURL + "/v1/devices/enroll"
        request.body = .bytes(DeviceMessages.enrolment(token))
        request.headers["Authorization"] = nil
        request.headers["Content-Type"] = "application/json"
        request.headers["Content-Encoding"] = nil
        let result = await transport.answer(to: request)
        traffic.add(result.traffic)
        guard case .success(let response) = result, response.status == 201 else { return result }
        return keep(response, from: token)
    }

    /// Requests the next token with the present one.
    package func refreshToken(replica: ReplicaID, over uplink: Uplink? = nil) async -> Result<HTTPResponse, TransportError> {
        var request: HTTPRequest
        let provisioned: String
        do {
            guard let token = try self.provisioned() else {
                return .failure(TransportError(.credentials, doing: "refresh the token", detail: "there is none"))
            }
            provisioned = token
            request = try plainRequest(replica: replica)
        } catch {
            return .failure(TransportError(.credentials, doing: "refresh the token", detail: "\(error)"))
        }
        request.url = baseURL + "/v1/devices/token"
        request.body = .bytes(Array("{}".utf8))
        request.interface = uplink?.boundInterface
        let result = await transport.answer(to: request)
        guard case .success(let response) = result, response.status == 200 else { return result }
        guard response.isHubs(at: time.now().wall) else {
            return .failure(
                TransportError(
                    .malformed, doing: "refresh the token", detail: "answer 200 without Sync-Version: it is not the hub's",
                    traffic: response.traffic))
        }
        return keep(response, from: provisioned) ?? result
    }

    /// - Returns: The reason why it was not stored; then the present token stays valid, because the hub has not seen the new one.
    private func keep(_ response: HTTPResponse, from provisioned: String) -> Result<HTTPResponse, TransportError>? {
        guard response.isHubs(at: time.now().wall) else { return .success(response) }
        do {
            let grant = try DeviceMessages.readGrant(response.body)
            try keepToken(KeptToken(grant, from: provisioned))
            return nil
        } catch {
            return .failure(
                TransportError(.credentials, doing: "keep the new token", detail: "\(error)", traffic: response.traffic))
        }
    }
}
