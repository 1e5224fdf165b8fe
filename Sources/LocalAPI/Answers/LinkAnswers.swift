package import SyncCore

/// One network interface in `GET /v1/links` and in the status.
package struct LinkItem: Hashable, Sendable {
    package struct Probe: Hashable, Sendable {
        package var at: Timestamp
        /// `ok`, or the code of the failure.
        package var result: String

        package init(at: Timestamp, result: String) {
            self.at = at
            self.result = result
        }
    }

    /// Runs of the operator's recovery program for the link (`links[].recover`).
    package struct Recovery: Hashable, Sendable {
        /// Number of runs since the start of the agent.
        package var runs: Int64
        /// Time at which the last run ended.
        package var at: Timestamp
        /// Result of the last run, in words.
        package var result: String

        package init(runs: Int64, at: Timestamp, result: String) {
            self.runs = runs
            self.at = at
            self.result = result
        }
    }

    package var name: String
    /// Kind of the link: `ethernet`, `wlan`, `wwan`, …
    package var kind: String?
    /// Progress of the link: `absent`, `down`, `carrier`, `addressed`, `routed`, `reachable`, `portal`, `limited` (PROTOCOL E1).
    package var state: String
    /// `true` when the link has carrier; `nil`: not known.
    package var hasCarrier: Bool?
    package var isMetered: Bool
    /// The evidence that decided: `config`, `hint`, `devtype`, …
    package var meteredBy: String?
    package var isRoaming: Bool
    /// Expiry of the hint in force; `nil` without one, or when it does not expire.
    package var expiresAt: Timestamp?
    package var addresses: [String]
    /// Rate limit of the agent, bytes per second; `nil`: no limit.
    package var bytesPerSecond: Int64?
    /// Round trip of the last answered probe or request.
    package var roundTrip: Duration?
    package var lastProbe: Probe?
    package var budget: LinkBudgets
    /// Recovery runs; `nil`: there was none.
    package var recovery: Recovery?

    package init(
        name: String, kind: String? = nil, state: String, hasCarrier: Bool? = nil, isMetered: Bool,
        meteredBy: String? = nil, isRoaming: Bool = false, expiresAt: Timestamp? = nil, addresses: [String] = [],
        bytesPerSecond: Int64? = nil, roundTrip: Duration? = nil, lastProbe: Probe? = nil,
        budget: LinkBudgets = LinkBudgets(), recovery: Recovery? = nil
    ) {
        self.name = name
        self.kind = kind
        self.state = state
        self.hasCarrier = hasCarrier
        self.isMetered = isMetered
        self.meteredBy = meteredBy
        self.isRoaming = isRoaming
        self.expiresAt = expiresAt
        self.addresses = addresses
        self.bytesPerSecond = bytesPerSecond
        self.roundTrip = roundTrip
        self.lastProbe = lastProbe
        self.budget = budget
        self.recovery = recovery
    }

    /// Makes the item from the judgement; further facts are added later.
    package init(_ link: JudgedLink) {
        self.init(
            name: link.name, kind: link.kind.rawValue, state: link.state.rawValue,
            hasCarrier: link.state != .absent && link.state != .down, isMetered: link.cost.isMetered,
            meteredBy: link.cost.evidence.rawValue, isRoaming: link.cost.isRoaming)
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("name", name)
            writer.member("kind", kind)
            writer.member("state", state)
            if let hasCarrier { writer.member("carrier", hasCarrier) }
            writer.member("metered", isMetered)
            writer.member("metered_by", meteredBy)
            writer.member("roaming", isRoaming)
            if let expiresAt { writer.time("expires_at", expiresAt) }
            if !addresses.isEmpty { writer.member("addresses", JSON.list(addresses)) }
            writer.member("rate_bytes_per_s", bytesPerSecond)
            writer.member("rtt_ms", roundTrip?.milliseconds)
            writer.name("last_probe")
            if let lastProbe {
                writer.object { writer in
                    writer.time("at", lastProbe.at)
                    writer.member("result", lastProbe.result)
                }
            } else {
                writer.null()
            }
            if let recovery {
                writer.name("recovery")
                writer.object { writer in
                    writer.member("runs", recovery.runs)
                    writer.time("last_at", recovery.at)
                    writer.member("last_result", recovery.result)
                }
            }
            guard !budget.isEmpty else { return }
            writer.name("budget")
            budget.write(to: &writer)
        }
    }

    init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let name = reader.text("name") else { return nil }
        self.init(
            name: name, kind: reader.text("kind"), state: reader.text("state") ?? "unknown",
            hasCarrier: reader.bool("carrier"), isMetered: reader.bool("metered") ?? false,
            meteredBy: reader.text("metered_by"), isRoaming: reader.bool("roaming") ?? false,
            expiresAt: reader.time("expires_at"), addresses: reader.texts("addresses"),
            bytesPerSecond: reader.int("rate_bytes_per_s"),
            roundTrip: reader.int("rtt_ms").map { .milliseconds($0) },
            budget: LinkBudgets(reader.inside("budget")))
        let probe = reader.inside("last_probe")
        if let at = probe.time("at") { lastProbe = Probe(at: at, result: probe.text("result") ?? "unknown") }
        let last = reader.inside("recovery")
        if let runs = last.int("runs"), let at = last.time("last_at") {
            recovery = Recovery(runs: runs, at: at, result: last.text("last_result") ?? "unknown")
        }
    }
}

/// Answer to `GET /v1/links`.
package struct LinksAnswer: Hashable, Sendable {
    package var items: [LinkItem]
    /// Name of the link that carries the sync; `nil` when there is none.
    package var uplink: String?
    /// The reason why work waits now.
    package var cause: PresentCause?

    package init(items: [LinkItem], uplink: String?, cause: PresentCause? = nil) {
        self.items = items
        self.uplink = uplink
        self.cause = cause
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { $1.write(to: &$0) }
                writer.name("uplink")
                if let uplink { writer.string(uplink) } else { writer.null() }
                if let cause { writer.members("cause") { cause.write(to: &$0) } }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["items"]?.array != nil else { return nil }
        items = reader.list("items").compactMap { LinkItem($0) }
        uplink = reader.text("uplink")
        cause = PresentCause(reader.inside("cause"))
    }
}

/// Answer to `PUT` and `DELETE /v1/links/{ifname}`: the present values for the link. A hint may name an interface that does not exist yet;
/// then the values come from the hint alone.
package struct LinkHintAnswer: Hashable, Sendable {
    package var name: String
    /// `true` when the link is metered; `nil`: not known yet.
    package var isMetered: Bool?
    package var meteredBy: String?
    package var isRoaming: Bool?
    /// Expiry of the hint; `nil` when none is in force.
    package var expiresAt: Timestamp?

    package init(
        name: String, isMetered: Bool?, meteredBy: String? = nil, isRoaming: Bool?, expiresAt: Timestamp? = nil
    ) {
        self.name = name
        self.isMetered = isMetered
        self.meteredBy = meteredBy
        self.isRoaming = isRoaming
        self.expiresAt = expiresAt
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("name", name)
                writer.name("metered")
                if let isMetered { writer.bool(isMetered) } else { writer.null() }
                writer.member("metered_by", meteredBy)
                writer.name("roaming")
                if let isRoaming { writer.bool(isRoaming) } else { writer.null() }
                writer.time("expires_at", expiresAt)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let name = reader.text("name") else { return nil }
        self.init(
            name: name, isMetered: reader.bool("metered"), meteredBy: reader.text("metered_by"),
            isRoaming: reader.bool("roaming"), expiresAt: reader.time("expires_at"))
    }
}
