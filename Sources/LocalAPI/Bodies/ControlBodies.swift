package import SyncCore

/// The body of `POST /v1/sync`.
package struct SyncBody: Hashable, Sendable {
    /// The requested cycle. If it is forced, it ignores metered links, battery, windows and backoff, but never `Retry-After`, refused
    /// credentials or a hard budget.
    package var request: SyncRequest
    /// Answer only when the cycle has ended.
    package var waits: Bool
    /// Remove the records that were held back because the hub no longer had suspiciously many: an operator has checked them.
    package var acceptsDeletions: Bool

    package init(_ request: SyncRequest = SyncRequest(), waits: Bool = false, acceptsDeletions: Bool = false) {
        self.request = request
        self.waits = waits
        self.acceptsDeletions = acceptsDeletions
    }

    /// The role that the request needs; higher than ``Route/role`` when it affects others.
    package var role: Role { request.isForced || request.scope == .full || acceptsDeletions ? .operate : .enqueue }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> SyncBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let request = SyncRequest(
            scope: reader.word("scope", SyncRequest.Scope.self) ?? .all, isForced: reader.bool("force") ?? false)
        let body = SyncBody(
            request, waits: reader.bool("wait") ?? false, acceptsDeletions: reader.bool("accept_deletions") ?? false)
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("scope", request.scope.rawValue)
            writer.member("force", request.isForced)
            writer.member("wait", waits)
            if acceptsDeletions { writer.member("accept_deletions", true) }
        }
        return writer.bytes
    }
}

/// The body of `POST /v1/pause`. The traffic with the hub is paused; enqueueing and reading continue.
package struct PauseBody: Hashable, Sendable {
    package enum Scope: String, Sendable, CaseIterable { case all }

    package var scope: Scope
    /// End of the pause; `nil` means until it is resumed.
    package var until: Timestamp?
    package var reason: String

    static let reasonBytesMax = 512

    package init(scope: Scope = .all, until: Timestamp? = nil, reason: String = "") {
        self.scope = scope
        self.until = until
        self.reason = reason
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> PauseBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let body = PauseBody(
            scope: reader.word("scope", Scope.self) ?? .all, until: reader.time("until"),
            reason: reader.text("reason", bytesMax: reasonBytesMax) ?? "")
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("scope", scope.rawValue)
            writer.member("until", until?.description)
            if !reason.isEmpty { writer.member("reason", reason) }
        }
        return writer.bytes
    }
}

/// The body of `POST /v1/resume`.
package struct ResumeBody: Hashable, Sendable {
    package var scope: PauseBody.Scope

    package init(scope: PauseBody.Scope = .all) {
        self.scope = scope
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> ResumeBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let body = ResumeBody(scope: reader.word("scope", PauseBody.Scope.self) ?? .all)
        try reader.finish()
        return body
    }
}

/// The body of `POST /v1/acknowledge`: a past alarm is no longer shown.
package struct AcknowledgeBody: Hashable, Sendable {
    /// Code of the alarm; `nil`: all past ones.
    package var code: String?

    package init(code: String? = nil) {
        self.code = code
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> AcknowledgeBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let body = AcknowledgeBody(code: reader.text("code", bytesMax: 64))
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in writer.member("code", code) }
        return writer.bytes
    }
}

/// The body of `POST /v1/mutations/{id}/retry`: the same change under a new key, optionally with a correction.
package struct RetryBody: Hashable, Sendable {
    /// Members that replace those of the refused `data`; `nil` repeats it unchanged.
    package var data: JSONObject?
    /// Fields that the retry leaves alone, whatever the refused mutation did with them.
    package var without: [String]
    /// Also retry mutations that were refused only because of this one.
    package var cascades: Bool

    package init(data: JSONObject? = nil, without: [String] = [], cascades: Bool = false) {
        self.data = data
        self.without = without
        self.cascades = cascades
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> RetryBody {
        var reader = BodyReader(try BodyText.object(bytes))
        var body = RetryBody()
        if let data = reader.value("data") {
            body.data = data.object
            if body.data == nil { reader.faults.wrong("/data", "an object", data) }
        }
        let data = body.data ?? [:]
        body.without = reader.texts("without", "is a field that data sets, so it cannot be left alone") { data[$0] == nil ? $0 : nil }
        body.cascades = reader.bool("cascade") ?? false
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("data", data.map { .object($0) })
            if !without.isEmpty { writer.member("without", JSON.list(without)) }
            if cascades { writer.member("cascade", true) }
        }
        return writer.bytes
    }
}

/// The body of `POST /v1/mutations/{id}/undo`: a new mutation undoes this one.
package struct UndoBody: Hashable, Sendable {
    /// Only report what would be undone.
    package var isTrial: Bool

    package init(isTrial: Bool = false) {
        self.isTrial = isTrial
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> UndoBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let body = UndoBody(isTrial: reader.bool("dry_run") ?? false)
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in if isTrial { writer.member("dry_run", true) } }
        return writer.bytes
    }
}

/// The body of `POST /v1/mutations/{id}/discard`: the refused value was seen and is given up.
package struct DiscardBody: Hashable, Sendable {
    package var reason: String

    package init(reason: String = "") {
        self.reason = reason
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> DiscardBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let body = DiscardBody(reason: reader.text("reason", bytesMax: PauseBody.reasonBytesMax) ?? "")
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            if !reason.isEmpty { writer.member("reason", reason) }
        }
        return writer.bytes
    }
}

/// The body of `POST /v1/config/check`. It holds a configuration as text, because the agent opens no file that a client names. Without a
/// text the agent checks its own files, as for a reload, and changes nothing.
package struct ConfigCheckBody: Hashable, Sendable {
    /// File name for messages; no file is opened by it.
    package var name: String
    package var text: String?

    package init(name: String = "agentd.yaml", text: String? = nil) {
        self.name = name
        self.text = text
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> ConfigCheckBody {
        var reader = BodyReader(try BodyText.object(bytes))
        let name = reader.text("name", bytesMax: 4_096)
        let text = reader.text("text", bytesMax: Limits.localBodyBytes)
        try reader.finish()
        return ConfigCheckBody(name: name ?? "agentd.yaml", text: text)
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("name", name)
            writer.member("text", text)
        }
        return writer.bytes
    }
}
