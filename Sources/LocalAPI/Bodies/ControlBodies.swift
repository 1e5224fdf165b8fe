package import SyncCore

/// `POST /v1/sync`.
package struct SyncBody: Hashable, Sendable {
    /// What is to be done, and whether past metered, battery, window and backoff; never past `Retry-After`, auth or a
    /// hard budget.
    package var request: SyncRequest
    /// Answer when the cycle has ended.
    package var waits: Bool
    /// Remove what was kept because the hub no longer had suspiciously much: somebody has looked at it.
    package var acceptsDeletions: Bool

    package init(_ request: SyncRequest = SyncRequest(), waits: Bool = false, acceptsDeletions: Bool = false) {
        self.request = request
        self.waits = waits
        self.acceptsDeletions = acceptsDeletions
    }

    /// What the peer must be; more than ``Route/role`` when it asks for what costs others.
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

/// `POST /v1/pause`. What is paused is the talk with the hub; enqueueing and reading go on.
package struct PauseBody: Hashable, Sendable {
    package enum Scope: String, Sendable, CaseIterable { case all }

    package var scope: Scope
    /// `nil` means until somebody resumes.
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

/// `POST /v1/resume`.
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

/// `POST /v1/acknowledge`: an alarm that is over is told no more.
package struct AcknowledgeBody: Hashable, Sendable {
    /// `nil`: all that are over.
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

/// `POST /v1/mutations/{id}/retry`: the same change under a new key, with a correction if that is what it needs.
package struct RetryBody: Hashable, Sendable {
    /// Replaces members of the refused `data`; `nil` repeats it as it was.
    package var data: JSONObject?
    /// Also repeat what was refused only because this one was.
    package var cascades: Bool

    package init(data: JSONObject? = nil, cascades: Bool = false) {
        self.data = data
        self.cascades = cascades
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> RetryBody {
        var reader = BodyReader(try BodyText.object(bytes))
        var body = RetryBody()
        if let data = reader.value("data") {
            body.data = data.object
            if body.data == nil { reader.faults.wrong("/data", "an object", data) }
        }
        body.cascades = reader.bool("cascade") ?? false
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("data", data.map { .object($0) })
            if cascades { writer.member("cascade", true) }
        }
        return writer.bytes
    }
}

/// `POST /v1/mutations/{id}/undo`: a new mutation takes back what this one did.
package struct UndoBody: Hashable, Sendable {
    /// Only say what would be taken back.
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

/// `POST /v1/mutations/{id}/discard`: somebody has seen the refused value and lets it go.
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

/// `POST /v1/config/check`: a configuration as text, because the agent opens no file that a client names; without a
/// text it checks its own files, as a reload would, and changes nothing.
package struct ConfigCheckBody: Hashable, Sendable {
    /// Stands in the messages; nothing is opened by it.
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
