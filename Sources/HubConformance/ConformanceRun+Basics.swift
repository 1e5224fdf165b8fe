import SyncCore

// Identity of the server, access to it, and its refusals.
extension ConformanceRun {
    func checkBasics() async {
        await checkOpenToAll()
        await checkHello()
        // A caller that is refused there would get the same refusal everywhere.
        guard hello != nil else { return }
        await checkVersions()
        await checkCredentials()
        await check("path-unknown", "A5", "A path that is not served is 404 with the problem not-found.") {
            try refusal(try await send(.get, "/v1/sync/nothing-here"), 404, "not-found")
            return "404 not-found"
        }
        await check("method-wrong", "A5", "Another method on a path that is served is 405, and Allow says which ones are.") {
            let answer = try await send(.put, "/v1/sync/pull", [])
            try refusal(answer, 405, "method-not-allowed")
            let allow = answer.headers["Allow"] ?? ""
            try require(allow.contains("POST"), allow.isEmpty ? "405 without Allow" : "Allow: \(Printable.text(allow, max: 60))")
            return "405, Allow: \(allow)"
        }
    }

    private func checkOpenToAll() async {
        await check(
            "probe-echo", "A2", "GET /v1/probe?n=NONCE is 204 without a body, echoes the nonce in Sync-Probe, and asks for no credential."
        ) {
            let nonce = newName()
            let answer = try await send(.get, "/v1/probe?n=\(nonce)", changed: [("Authorization", nil), (HubHeader.version, nil)])
            try require(answer.status == 204, "\(answer.status)\(said(answer)), not 204")
            let echo = answer.headers[HubHeader.probe]
            try require(echo == nonce, "Sync-Probe is \(echo.map { Printable.text($0, max: 60) } ?? "missing"), not the nonce")
            try require(answer.body.isEmpty, "a body of \(answer.body.count) bytes")
            return "204 with the nonce"
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            await check(String(path.dropFirst()), "A2", "GET \(path) answers 200 without a credential, where it is served.") {
                let answer = try await send(.get, path, changed: [("Authorization", nil)])
                if answer.status == 404 { throw NotOffered("404") }
                try require(answer.status == 200, "\(answer.status)\(said(answer))")
                return "200"
            }
        }
    }

    private func checkHello() async {
        await check(
            "hello", "A2",
            "POST /v1/sync/hello tells device, epoch, head, versions and limits; Sync-Epoch and Sync-Head in the header say the same."
        ) {
            let request = HelloRequest(
                agent: "conformance", platform: "conformance", replica: replica, maxSentSeq: 0, highestAckedSeq: 0,
                entities: [settings.entity])
            let answer = try await send(.post, "/v1/sync/hello", HelloMessages.request(request))
            let hello = try HelloMessages.readResponse(try body(answer))
            self.hello = hello
            try require(
                hello.versions.contains(HubHeader.currentVersion), "sync_versions is \(hello.versions), without \(HubHeader.currentVersion)"
            )
            let facts = headers(answer)
            try require(facts.epoch == hello.epoch, "Sync-Epoch is \(facts.epoch ?? "missing"), the body says \(hello.epoch)")
            try require(
                facts.head.map { $0 >= hello.head } ?? false,
                "Sync-Head is \(facts.head.map { String($0) } ?? "missing"), the body says \(hello.head)")
            if let device = settings.device { try require(hello.device == device, "device_id is \(hello.device), not \(device)") }
            return "device \(hello.device), head \(hello.head), can \(hello.capabilities.joined(separator: " "))"
        }
        guard hello != nil else { return }
        await check("hello-time", "A1", "Every answer has the server's clock in Sync-Time: milliseconds since 1970.") {
            let answer = try await send(.post, "/v1/sync/hello", Array("{}".utf8))
            guard let time = headers(answer).time else { throw Deviation("Sync-Time is \(answer.headers[HubHeader.time] ?? "missing")") }
            // Later than the protocol itself, and not in seconds or microseconds.
            let range = RFC3339.timestamp("2024-01-01T00:00:00Z").flatMap { low in
                RFC3339.timestamp("2200-01-01T00:00:00Z").map { low...$0 }
            }
            try require(range?.contains(time) ?? true, "Sync-Time is \(time)")
            return "\(time)"
        }
        await check("hello-unknown-members", "A1", "Members that a server does not know are skipped.") {
            _ = try body(try await post("/v1/sync/hello", ["colour": "blue", "nested": ["a": [1, 2]]]))
            return "200"
        }
        await check("hello-malformed", "A5", "A body that is no JSON is 400 malformed.") {
            try refusal(try await send(.post, "/v1/sync/hello", Array("{\"agent\":".utf8)), 400, "malformed")
            return "400 malformed"
        }
    }

    private func checkVersions() async {
        let demand = "A request in a version that is not spoken is 400 unsupported-sync-version, and `supported` says which are."
        await check("version-unknown", "A1", demand) { try await refusedVersion("999") }
        await check("version-missing", "A1", "A request without Sync-Version is refused in the same way.") { try await refusedVersion(nil) }
        await check("version-literal", "A1", "The literal name sync_version counts as well as Sync-Version.") {
            let answer = try await send(
                .post, "/v1/sync/hello", Array("{}".utf8), changed: [(HubHeader.version, nil), (HubHeader.versionUnderscored, "1")])
            _ = try body(answer)
            return "200"
        }
    }

    private func refusedVersion(_ version: String?) async throws -> String {
        let answer = try await send(.post, "/v1/sync/hello", Array("{}".utf8), changed: [(HubHeader.version, version)])
        let problem = try refusal(answer, 400, "unsupported-sync-version")
        let supported = problem.members["supported"]?.array?.compactMap(\.int) ?? []
        try require(supported.contains(Int64(HubHeader.currentVersion)), "supported is \(problem.members["supported"]?.json ?? "missing")")
        return "400, supported \(supported)"
    }

    private func checkCredentials() async {
        func refused(_ changed: [(String, String?)], from device: DeviceID? = nil) async throws -> String {
            guard settings.token != nil else { throw NotTried("no --token was given") }
            let answer = try await send(.post, "/v1/sync/hello", Array("{}".utf8), changed: changed, from: device)
            try refusal(answer, 401, "auth")
            return "401 auth"
        }
        await check("auth-missing", "A10", "Without a credential a device's request is 401 auth.") {
            try await refused([("Authorization", nil)])
        }
        await check("auth-wrong", "A10", "With a token that was never given it is 401 auth.") {
            try await refused([("Authorization", "Bearer est_conformance-nobody-has-this")])
        }
        await check("auth-scheme", "A10", "Another scheme than Bearer is 401 auth.") {
            try await refused([("Authorization", "Basic Y29uZm9ybWFuY2U6eA==")])
        }
        await check("auth-other-device", "A10", "A token speaks for one device: with another Sync-Device it is 401 auth.") {
            try await refused([], from: DeviceID(trusted: "conformance-somebody-else"))
        }
        await check("enrol-unknown", "A10", "POST /v1/devices/enroll with a token that is not known is 401 auth.") {
            let answer = try await send(
                .post, "/v1/devices/enroll", DeviceMessages.enrolment("ese_conformance-nobody-has-this"), changed: [("Authorization", nil)])
            if answer.status == 404 { throw NotOffered("404: tokens are given in another way") }
            try refusal(answer, 401, "auth")
            return "401 auth"
        }
    }
}
