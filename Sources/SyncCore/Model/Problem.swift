/// An RFC 9457 problem: a stable `code` for programs, a sentence for people, and pointers into the request body.
package struct Problem: Error, Hashable, Sendable {
    package struct Pointer: Hashable, Sendable {
        /// JSON pointer into the request body (RFC 6901).
        package var pointer: String
        package var detail: String

        package init(_ pointer: String, _ detail: String) {
            self.pointer = pointer
            self.detail = detail
        }
    }

    /// The last part of `type`, after `urn:edge-sync:` (hub) or `urn:edge-sync:local:` (agent).
    package var code: String
    package var status: Int
    package var title: String
    package var detail: String
    package var errors: [Pointer]
    /// Time after which another attempt makes sense, seconds.
    package var retryAfter: Int?
    /// Further members, such as `resync` or `supported`.
    package var members: JSONObject

    package init(
        _ code: String, status: Int, title: String? = nil, detail: String, errors: [Pointer] = [], retryAfter: Int? = nil,
        members: JSONObject = [:]
    ) {
        self.code = code
        self.status = status
        self.title = title ?? Problem.title(of: code)
        self.detail = detail
        self.errors = errors
        self.retryAfter = retryAfter
        self.members = members
    }

    /// The title of a code: `cursor-expired` becomes `Cursor expired`.
    package static func title(of code: String) -> String {
        let words = code.split(whereSeparator: { $0 == "-" || $0 == "_" }).joined(separator: " ")
        return words.prefix(1).uppercased() + words.dropFirst()
    }

    /// The body of an `application/problem+json` answer; also the `problem` member of a result or a mutation.
    package func json(prefix: String) -> JSON {
        var object: JSONObject = [
            "type": .string(prefix + code), "title": .string(title), "status": .int(status), "detail": .string(detail),
        ]
        if !errors.isEmpty {
            object["errors"] = .array(
                errors.map { ["pointer": .string($0.pointer), "detail": .string($0.detail)] })
        }
        if let retryAfter { object["retry_after"] = .int(retryAfter) }
        for member in members.members { object[member.name.text] = member.value }
        return .object(object)
    }

    /// Code of a change that this device may not make.
    package static let forbidden = "forbidden"
    /// Code of a change whose record has left the share of this device; also the reason of such a deletion.
    package static let revoked = "revoked"
    /// Code of a member of an atomic list that fell with another one.
    package static let groupRejected = "group-rejected"
    /// Code of a cursor that was made under other scopes: the hub cannot tell what the device gained and lost since.
    package static let scopeChanged = "scope-changed"
    /// Code of a stream or a listing that takes records back from an agent which would keep them.
    package static let agentTooOld = "agent-too-old"

    package static let hubPrefix = "urn:edge-sync:"
    package static let localPrefix = "urn:edge-sync:local:"

    /// Reads a problem from a hub or an agent. Unknown members are kept; a missing `type` gives the code `unknown`.
    package init(_ json: JSON) {
        let object = json.object ?? [:]
        let type = object["type"]?.text ?? "unknown"
        var code = type
        for prefix in [Problem.localPrefix, Problem.hubPrefix] where type.hasPrefix(prefix) {
            code = String(type.dropFirst(prefix.utf8.count))
            break
        }
        var rest = object
        for name in ["type", "title", "status", "detail", "errors", "retry_after"] { rest[name] = nil }
        self.init(
            code, status: Int(clamping: object["status"]?.int ?? 0), title: object["title"]?.text,
            detail: object["detail"]?.text ?? "",
            errors: (object["errors"]?.array ?? []).map {
                Pointer($0.object?["pointer"]?.text ?? "", $0.object?["detail"]?.text ?? "")
            },
            retryAfter: object["retry_after"]?.int.map { Int(clamping: $0) }, members: rest)
    }
}
