import Agent
import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension StatusDocument {
    fileprivate func tellsOtherwise(than other: StatusDocument) -> Bool {
        cause != other.cause || outbox.deferred.map(\.reason) != other.outbox.deferred.map(\.reason)
            || outbox.deferred.map(\.until) != other.outbox.deferred.map(\.until)
    }
}

/// `status`, `why`, `plan`, `links`, `readyz` and `doctor` show the same cause for waiting work, and only one that holds now.
@Suite("One present cause, and every view tells it")
struct OneCauseTests {
    struct Obstacle: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Value of `cause.code`.
        var code: String
        /// Text that each sentence about the cause contains.
        var words: String
        /// Checks of the doctor that find it.
        var checks: [String]
        /// Text of the command that each view names.
        var command: String
        var weather: LoopbackHub.Weather

        init(_ name: String, _ code: String, _ words: String, _ checks: [String], _ command: String, _ weather: LoopbackHub.Weather) {
            (testDescription, self.code, self.words, self.checks, self.command, self.weather) = (
                name, code, words, checks, command, weather
            )
        }
    }

    private static func fails(_ code: TransportError.Code, _ doing: String, _ detail: String) -> LoopbackHub.Weather {
        .fails(TransportError(code, doing: doing, detail: detail))
    }

    /// An answer of the hub's own.
    private static func refuses(_ status: Int, _ code: String, _ detail: String, _ headers: HTTPHeaders = [:]) -> LoopbackHub.Weather {
        var response = HTTPResponse(
            status: status, headers: headers, body: Problem(code, status: status, detail: detail).json(prefix: "").bytes)
        response.headers["Sync-Version"] = "1"
        response.headers["Content-Type"] = "application/problem+json"
        return .says(response)
    }

    /// An HTML page, as a proxy or portal answers in the hub's place.
    private static func page(_ status: Int, _ headers: HTTPHeaders = [:]) -> LoopbackHub.Weather {
        var response = HTTPResponse(status: status, headers: headers, body: Array("<html>".utf8))
        if response.headers["Content-Type"] == nil { response.headers["Content-Type"] = "text/html" }
        return .says(response)
    }

    static let hubAway: [Obstacle] = [
        Obstacle(
            "no DNS", "dns", "Could not resolve host: hub.test", ["hub", "dns"], "getent hosts hub.test",
            fails(.unresolved, "look up hub.test", "Could not resolve host: hub.test")),
        Obstacle(
            "no route", "no_connection", "No route to host", ["hub"], "curl -v",
            fails(.unreachable, "connect to hub.test:443", "No route to host")),
        Obstacle(
            "refused", "no_connection", "Connection refused", ["hub"], "curl -v",
            fails(.unreachable, "connect to hub.test:443", "Connection refused")),
        Obstacle("silence", "timeout", "no byte in 30 s", ["hub"], "curl -v", fails(.timedOut, "wait for the answer", "no byte in 30 s")),
        Obstacle(
            "a connection that breaks", "connection_lost", "Connection reset by peer", ["hub"], "curl -v",
            fails(.broken, "read the answer", "Connection reset by peer")),
        Obstacle(
            "a wrong name", "tls", "no alternative certificate subject name", ["hub", "tls"], "openssl s_client -connect hub.test:8443 ",
            fails(.untrusted, "TLS handshake", "no alternative certificate subject name matches")),
        Obstacle(
            "an unknown issuer", "tls", "unable to get local issuer", ["hub", "tls"], "hub.ca_file",
            fails(.untrusted, "TLS handshake", "unable to get local issuer certificate")),
        Obstacle(
            "another key", "tls", "public key does not match pinned", ["hub", "tls"], "hub.pin",
            fails(.untrusted, "TLS handshake", "public key does not match pinned public key")),
        Obstacle(
            "an ended certificate", "tls_date", "certificate has expired", ["hub", "tls"], "timedatectl",
            fails(.untrustedDate, "TLS handshake", "certificate has expired")),
        Obstacle(
            "a clock before its time", "tls_date", "certificate is not yet valid", ["hub", "tls"], "timedatectl",
            fails(.untrustedDate, "TLS handshake", "certificate is not yet valid")),
        Obstacle("a wrong path", "not_the_hub", "answer 404 without Sync-Version", ["hub"], "then look at hub.url", page(404)),
        Obstacle("a door that is shut", "not_the_hub", "answer 403 without Sync-Version", ["hub"], "then look at hub.url", page(403)),
        Obstacle("another server", "portal", "answer 200 without Sync-Version", ["hub"], "curl -v", page(200)),
        Obstacle(
            "a redirect", "portal", "redirected to http://login.test/", ["hub"], "curl -v", page(302, ["Location": "http://login.test/"])),
        Obstacle("a portal by its own word", "portal", "answer 511", ["hub"], "curl -v", page(511)),
        Obstacle(
            "no such endpoint at the hub", "wrong_address", "no such route", ["hub"], "then look at hub.url",
            refuses(404, "not-found", "no such route")),
        Obstacle("a gateway's error", "overloaded", "answer 502 without Sync-Version", ["hub"], "ask the hub's operator", page(502)),
        Obstacle(
            "a gateway's wait", "overloaded", "answer 503 without Sync-Version", ["hub"], "ask the hub's operator",
            page(503, ["Retry-After": "3600"])),
        Obstacle(
            "too many requests", "overloaded", "slow down", ["hub"], "ask the hub's operator",
            refuses(429, "rate", "slow down", ["Retry-After": "60"])),
        Obstacle(
            "maintenance", "overloaded", "until six", ["hub"], "ask the hub's operator",
            refuses(503, "maintenance", "closed until six", ["Retry-After": "600"])),
        Obstacle(
            "another version", "version", "speaks version 7", ["hub"], "update agentd",
            refuses(400, "unsupported-sync-version", "this hub speaks version 7")),
        Obstacle(
            "an upgrade is wanted", "wrong_address", "upgrade first", ["hub"], "then look at hub.url",
            refuses(426, "upgrade", "upgrade first")),
        Obstacle(
            "an error of the hub", "hub_failed", "out of memory", ["hub"], "agentctl diagnose", refuses(500, "internal", "out of memory")),
        Obstacle(
            "nonsense", "bad_answer", "the hub", ["hub"], "agentctl diagnose",
            .says(HTTPResponse(status: 200, headers: ["Sync-Version": "1", "Content-Type": "application/json"], body: Array("{}".utf8)))),
        Obstacle(
            "an unknown token", "token_refused", "no such token", ["hub", "token"], "agenthub token add gw-test",
            refuses(401, "unauthorized", "no such token")),
        Obstacle(
            "a token without the right", "token_refused", "may not push", ["hub", "token"], "agenthub token add gw-test",
            refuses(403, "forbidden", "may not push")),
        Obstacle(
            "a token that ended", "token_refused", "ended at noon", ["hub", "token"], "agenthub token readmit gw-test",
            refuses(401, "unauthorized", "the token ended at noon; an operator can let it in: agenthub token readmit gw-test")),
        Obstacle(
            "shut out", "device_blocked", "stolen", ["hub", "token"], "agenthub token list",
            refuses(403, "device-blocked", "reported as stolen")),
        Obstacle(
            "no client certificate", "client_certificate", "certificate required", ["hub", "tls"], "hub.client_cert_file",
            fails(.clientCertificate, "TLS handshake", "alert certificate required")),
    ]

    @Test("Faults on the way to the hub", arguments: hubAway)
    func away(_ obstacle: Obstacle) async throws {
        let stand = try await Self.stand()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        stand.hub.weather = obstacle.weather
        try await stand.sync()
        try await expect(obstacle, of: id, at: stand)
        try await stand.stop()
    }

    @Test(
        "A proxy that wants credentials, or refuses those it was shown: every view says so, and where to put them",
        arguments: [
            (
                HTTPProxy.Demand.credentials, "",
                "put USER:PASSWORD into /etc/credstore/hub-proxy, mode 600, owned by root, then: systemctl restart agentd"
            ),
            (
                .otherCredentials, ", proxy_credentials_file: /etc/agentd/proxy",
                "put USER:PASSWORD into /etc/agentd/proxy (hub.proxy_credentials_file), mode 600, owned by the agent's user"
            ),
        ])
    func proxyAsks(_ demand: HTTPProxy.Demand, _ setting: String, _ command: String) async throws {
        let stand = try await Self.stand(hub: ", proxy: \"http://proxy.test:3128\"" + setting)
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        stand.hub.weather = Self.fails(
            .unreachable, "connect to hub.test:8443 through the proxy proxy.test:3128", demand.rawValue)
        try await stand.sync()
        try await expect(Obstacle("", "no_connection", demand.rawValue, ["hub", "proxy"], command, .fine), of: id, at: stand)
        try await stand.stop()
    }

    @Test("Only the present one of several causes is shown, and none when the hub answers")
    func present() async throws {
        let stand = try await Self.stand()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        for obstacle in Self.hubAway where obstacle.testDescription != "too many requests" && obstacle.testDescription != "maintenance" {
            stand.hub.weather = obstacle.weather
            // Credentials that were refused are not shown again, unless there are others.
            stand.outside.token = obstacle.testDescription
            _ = try await stand.send(.post, "/v1/config/reload")
            try await stand.sync()
            try await expect(obstacle, of: id, at: stand)
        }
        stand.hub.weather = .fine
        stand.outside.token = "good"
        #expect(try await stand.sync()["result"] == "ok")
        let views = try await Views(stand, id)
        #expect(views.status.cause == nil && views.links.cause == nil && views.why.cause == nil && views.plan.waits.isEmpty)
        #expect(views.finding("hub")?.severity == .ok)
        #expect(views.readiness.status == 200)
        try await stand.stop()
    }

    // MARK: Causes on this device

    @Test("The token file cannot be read: the hub was never asked, and no view says that it refuses the device")
    func noToken() async throws {
        let stand = try await Self.stand { environment in
            environment.token = { throw AgentStand.NoToken() }
        }
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        try await stand.sync()
        try await expect(
            Obstacle("", "credentials_file", "no such file: /etc/agentd/token", ["hub"], "put the token into", .fine), of: id, at: stand)
        #expect(try await Views(stand, id).finding("hub")?.detail.hasPrefix("it was not asked") == true)
        #expect(stand.hub.requests.isEmpty)
        try await stand.stop()
    }

    @Test("The sync is paused")
    func paused() async throws {
        let stand = try await Self.stand()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        #expect(try await stand.send(.post, "/v1/pause", #"{"until":"2099-01-01T00:00:00Z","reason":"changing the modem"}"#).status == 200)
        try await expect(Obstacle("", "paused", "changing the modem", ["pause"], "agentctl resume", .fine), of: id, at: stand)
        try await stand.stop()
    }

    @Test("The agent died too often")
    func safeMode() async throws {
        let stand = try await Self.stand { environment in
            environment.deaths = 5
            environment.safeMode = .init(deaths: 5, holds: .seconds(900))
        }
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        try await expect(Obstacle("", "paused", "died 5 times", ["pause"], "agentctl resume", .fine), of: id, at: stand)
        try await stand.stop()
    }

    /// Work that the links and the battery hold back.
    struct Surroundings: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: String
        var words: String
        var command: String
        var settings = ""
        var link: @Sendable (inout LinkFacts) -> Void = { _ in }
        var hasRoute = true
        var batteryPercent: Int?
        var hint: String?
        var isReady = false
        var mutation = #"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#
    }

    @Test(
        "Causes that hold work back although the hub would answer",
        arguments: [
            Surroundings(
                testDescription: "no carrier", code: "offline", words: "no link has carrier", command: "ip -brief address",
                link: { $0.hasCarrier = false }, hasRoute: false),
            Surroundings(
                testDescription: "no route", code: "offline", words: "a route to the hub", command: "ip route",
                link: { $0.defaultMetric = nil }, hasRoute: false),
            Surroundings(
                testDescription: "a metered link", code: "metered", words: "the link eth0 is metered", command: "agentctl sync --force",
                settings: "links: [{ match: eth0, metered: true }]\n"),
            Surroundings(
                testDescription: "roaming", code: "roaming", words: "the modem eth0 is roaming", command: "agentctl sync --force",
                hint: #"{"metered":true,"roaming":true}"#),
            Surroundings(
                testDescription: "the end of a budget", code: "budget", words: "the data budget of eth0", command: "links[].budget",
                settings: "links: [{ match: eth0, metered: true, budget: { day: 10KB } }]\n", isReady: true,
                mutation:
                    #"{"entity":"audits","record_id":"a-1","action":"create","priority":"critical","data":{"t":"\#(String(repeating: "x", count: 20_000))"}}"#
            ),
            Surroundings(
                testDescription: "a low battery", code: "low_battery", words: "the battery is low", command: "agentctl sync --force",
                batteryPercent: 9),
            Surroundings(
                testDescription: "outside the windows", code: "window", words: "outside the time window", command: "agentctl sync --force",
                settings: "sync: { windows: [\(Self.windowOfTomorrow)], windows_hold: all }\n"),
        ])
    func surroundings(_ example: Surroundings) async throws {
        let outside = FixedSurroundings(hasRoute: example.hasRoute, batteryPercent: example.batteryPercent, link: example.link)
        let stand = try await Self.stand(example.settings) { environment in
            environment.links = outside
            if example.batteryPercent != nil { environment.power = outside }
            environment.resolve = { _, done in done(["127.0.0.1"], true) }
        }
        if let hint = example.hint { #expect(try await stand.send(.put, "/v1/links/eth0", hint).status == 200) }
        let id = try await stand.enqueue(example.mutation)
        try await until("the cause") {
            // The budget is judged when the mutation's turn comes, so a cycle has to run first.
            if example.isReady { try await stand.sync(force: false) }
            return try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) }?.cause?.code == example.code
        }
        try await expect(
            Obstacle("", example.code, example.words, example.code == "offline" ? ["hub", "link"] : [], example.command, .fine), of: id,
            at: stand,
            isReady: example.isReady)
        try await stand.stop()
    }

    /// A window of five minutes that is not open now and not soon.
    private static var windowOfTomorrow: String {
        let hour = (SystemClocks().now().wall.milliseconds / 3_600_000 + 12) % 24
        let text = hour < 10 ? "0\(hour)" : "\(hour)"
        return #""\#(text):00-\#(text):05""#
    }

    // MARK: Facts that are shown beside the cause

    @Test("A disk that is full is no reason why sent work waits; status and doctor name it, and the app is told")
    func fullDisk() async throws {
        let stand = try await AgentStand.start(freeBytes: 0)
        let refused = try await stand.send(.post, "/v1/mutations", #"{"entity":"audits","record_id":"a-1","action":"create","data":{}}"#)
        #expect(refused.status == 507 && refused.code == "disk-full", "\(refused.text)")
        try await stand.sync()
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        #expect(status.overall.reasons.contains("disk_full") && status.cause == nil)
        #expect(StatusScreen.render(status, now: SystemClocks().now().wall, color: false).contains { $0.contains("the disk is full") })
        try await stand.stop()
    }

    @Test("A copied card: the alarm is in status and in doctor, in the same words")
    func copiedCard() async throws {
        let stand = try await AgentStand.start()
        stand.hub.weather = .changes { _, response in response.headers["Sync-Twins"] = "2" }
        try await stand.sync()
        try await expectAlarm("cloned_device", at: stand)
        try await stand.stop()
    }

    @Test("A refused change: why, status and the inbox give the hub's words")
    func refusedBySchema() async throws {
        let stand = try await AgentStand.start()
        let id = try await stand.enqueue(#"{"entity":"audits","record_id":"a-1","action":"create","data":{"n":1}}"#)
        stand.hub.weather = .changesResults { results in
            results.map { result in
                [
                    "idempotency_key": result.object?["idempotency_key"] ?? .null, "status": "rejected",
                    "problem": Problem("validation", status: 422, detail: "n must be a text").json(prefix: ""),
                ]
            }
        }
        try await stand.sync()
        let views = try await Views(stand, id)
        #expect(views.status.cause == nil)
        #expect(views.why.sentence.contains("n must be a text"))
        #expect(views.screen.contains { $0.contains("n must be a text") })
        #expect(views.finding("decisions")?.detail == "1 rejected")
        try await stand.stop()
    }

    private func expectAlarm(_ code: String, at stand: AgentStand) async throws {
        let status = try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        let alarm = try #require(status.alarms.first { $0.code == code }, "\(status.alarms)")
        let findings = try #require(try await stand.send(.get, "/v1/checklist").json.flatMap { DoctorAnswer($0) }).findings
        #expect(findings.first { $0.id == "alarms" }?.detail.contains(alarm.detail) == true)
    }

    // MARK: Looking

    /// All that says why work waits, at one moment.
    private struct Views {
        var status: StatusDocument
        var why: WhyAnswer
        var plan: PlanAnswer
        var links: LinksAnswer
        var readiness: AgentStand.Answer
        var findings: [DoctorFinding]
        var screen: [String]

        init(_ stand: AgentStand, _ id: String) async throws {
            // On a busy machine a retry may come between the first view and the last, and change when the next one is due.
            var before: StatusDocument
            repeat {
                before = try await Self.status(stand)
                self = try await Views(before, stand, id)
            } while try await Self.status(stand).tellsOtherwise(than: before)
        }

        private static func status(_ stand: AgentStand) async throws -> StatusDocument {
            try #require(try await stand.send(.get, "/v1/status").json.flatMap { StatusDocument($0) })
        }

        private init(_ status: StatusDocument, _ stand: AgentStand, _ id: String) async throws {
            self.status = status
            why = try #require(try await stand.send(.get, "/v1/why/\(id)").json.flatMap { WhyAnswer($0) })
            plan = try #require(try await stand.send(.post, "/v1/plan", "{}").json.flatMap { PlanAnswer($0) })
            links = try #require(try await stand.send(.get, "/v1/links").json.flatMap { LinksAnswer($0) })
            readiness = try await stand.send(.get, "/v1/readyz")
            findings = try #require(try await stand.send(.get, "/v1/checklist").json.flatMap { DoctorAnswer($0) }).findings
            screen = StatusScreen.render(status, width: 200, now: SystemClocks().now().wall, color: false)
        }

        func finding(_ id: String) -> DoctorFinding? { findings.first { $0.id == id } }
    }

    private func expect(_ obstacle: Obstacle, of id: String, at stand: AgentStand, isReady: Bool = false) async throws {
        let views = try await Views(stand, id)
        let comment = Comment(rawValue: "\(obstacle.testDescription): \(views.status.cause.map { "\($0)" } ?? "no cause")")
        let cause = try #require(views.status.cause, comment)
        #expect(cause.code == obstacle.code, comment)
        #expect(cause.sentence.contains(obstacle.words), comment)
        #expect(cause.command.contains(obstacle.command), comment)
        #expect(views.status.overall.level != .ok, comment)
        #expect(views.links.cause == cause, comment)

        #expect(views.why.cause == cause.code && views.why.until == cause.until && views.why.command == cause.command, comment)
        #expect(views.why.sentence.contains(cause.sentence), "\(views.why.sentence)")
        let wait = try #require(views.plan.waits.first { $0.traffic != "pull" }, comment)
        #expect(wait.cause == cause.code && wait.until == cause.until && wait.command == cause.command, "\(wait)")
        #expect(wait.sentence.contains(cause.sentence), "\(wait.sentence)")
        let verdict = views.status.verdicts.first { $0.name == wait.traffic }?.verdict
        #expect(verdict == .deferred(reason: wait.reason, until: cause.until), comment)
        #expect(views.status.outbox.deferred.first.map { $0.reason == wait.reason && $0.until == cause.until } == true, comment)

        // Before the first word with the hub nothing is ready, for the same reason.
        #expect(views.readiness.status == (isReady ? 200 : 503))
        #expect(views.readiness["cause"]?.object?["sentence"]?.text == (isReady ? nil : cause.sentence))

        for id in obstacle.checks {
            let finding = try #require(views.finding(id))
            #expect(finding.severity == .bad || finding.severity == .warn, "\(finding)")
            if id != "link", id != "pause" || obstacle.code == "paused", cause.code != "offline" {
                #expect(finding.detail.contains(obstacle.words), "\(finding)")
            }
            #expect(finding.fix?.contains(obstacle.command) == true, "\(finding)")
        }
        // Nothing that the network checks say is about something else.
        for finding in views.findings where ["dns", "tls", "token", "proxy"].contains(finding.id) && !obstacle.checks.contains(finding.id) {
            #expect(finding.severity == .ok || finding.severity == .unknown, "\(obstacle.testDescription): \(finding)")
        }
        let row = views.screen.first { $0.hasPrefix("CAUSE") }
        #expect(row?.contains(obstacle.words) == true, "\(views.screen)")
    }

    /// - Parameter hub: Further keys of the section `hub`, each behind a comma.
    private static func stand(
        _ settings: String = "", hub: String = "", adjust: (inout AgentEnvironment) -> Void = { _ in }
    ) async throws -> AgentStand {
        try await AgentStand.start(
            "hub: { url: \"https://hub.test:8443\"\(hub) }\naccess: [{ group: tests, role: admin, rate: 100000 }]\n" + settings
        ) { environment in
            environment.examine = { questions, answer in
                var system = DoctorFacts.System(stateFolder: questions.stateFolder)
                system.token = .init(path: "/etc/agentd/token")
                answer(system)
            }
            adjust(&environment)
        }
    }

    private func until(_ what: String, _ isTrue: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(600)
        while try await !isTrue() {
            guard ContinuousClock.now < end else { throw Late(what: what) }
        }
    }

    private struct Late: Error {
        var what: String
    }
}
