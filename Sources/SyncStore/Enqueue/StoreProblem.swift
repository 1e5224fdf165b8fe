import SyncCore

/// The problems that the store answers with, in one place (codes: PROTOCOL B1).
enum StoreProblem {
    /// Content that breaks rules of its entity.
    ///
    /// - Parameters:
    ///   - subject: The thing that was judged, such as `audits`.
    ///   - faults: At least one.
    static func faults(_ faults: [Problem.Pointer], in subject: String) -> StoreError {
        var detail = subject
        if let first = faults.first { detail += ": \(first.pointer) \(first.detail)" }
        if faults.count > 1 { detail += ", and \(faults.count - 1) more" }
        return .refused(Problem("validation", status: 422, detail: detail, errors: faults))
    }

    /// - Parameter list: The command that lists the existing ones.
    static func notFound(_ what: String, list: String? = nil) -> StoreError {
        let members: JSONObject = list.map { ["list": .string($0)] } ?? [:]
        return .refused(Problem("not-found", status: 404, detail: "there is no \(what)", members: members))
    }

    /// - Parameter refused: The key of the refused mutation that was to make the record; `nil` if there was a record.
    static func deleted(_ name: RecordName, refused: String?) -> StoreError {
        guard let refused else { return .refused(Problem("deleted", status: 409, detail: "the record \(name) is deleted")) }
        return .refused(
            Problem(
                "deleted", status: 409,
                detail: "there is no record \(name): the mutation \(refused), which was to create it, is rejected",
                members: ["mutation": .string(refused)]))
    }

    static func notKept(_ name: RecordName) -> StoreError { .refused(RecordSnapshot.notKept(name)) }

    static func notInShare(_ name: RecordName) -> StoreError {
        .refused(
            Problem(
                "not-found", status: 404,
                detail: "the record \(name) is not in the share of this device; retry the change when a pull has brought the record back"))
    }

    static func exists(_ name: RecordName, version: Int64) -> StoreError {
        .refused(
            Problem(
                "exists", status: 409, detail: "the record \(name) exists already", members: ["version": .int(version)]))
    }

    static func versionMismatch(_ name: RecordName, expected: Int64, found: Int64) -> StoreError {
        .refused(
            Problem(
                "version-mismatch", status: 409,
                detail: "the record \(name) has version \(found), and version \(expected) was expected",
                errors: [Problem.Pointer("/expect_version", "the present version is \(found)")],
                members: ["version": .int(found)]))
    }

    /// - Parameter etag: The record's present tag; `nil` when there is no record.
    static func preconditionFailed(_ name: RecordName, etag: String?, version: Int64) -> StoreError {
        let state = etag == nil ? "does not exist" : "has changed since it was read"
        return .refused(
            Problem(
                "precondition-failed", status: 412, detail: "the record \(name) \(state)",
                errors: [Problem.Pointer("/if_match", etag.map { "the present etag is \($0)" } ?? "there is no record to match")],
                members: ["etag": .optional(etag), "version": .int(version)]))
    }

    static func idempotencyMismatch(_ key: String) -> StoreError {
        .refused(
            Problem(
                "idempotency-mismatch", status: 409,
                detail: "the idempotency key \(key) was used before with another body"))
    }

    static func alreadySent(_ key: MutationKey, _ state: MutationState) -> StoreError {
        .refused(
            Problem(
                "already-sent", status: 409, detail: "the mutation \(key) is \(state.name)",
                members: ["state": .string(state.name)]))
    }

    /// The refusal to cancel a mutation of which the hub may have a part.
    ///
    /// - Parameter sent: The key of the one that was sent: the mutation itself, or a member of its atomic list.
    static func sentBefore(_ sent: String, of key: MutationKey, _ state: MutationState) -> StoreError {
        let what = sent == key.text ? "the mutation \(key)" : "the mutation \(sent) of the same atomic list"
        return .refused(
            Problem(
                "already-sent", status: 409, detail: what + " was sent before, so the server may have it",
                members: ["state": .string(state.name)]))
    }

    /// The refusal to retry an atomic list while a person is asked about a member.
    static func listDisputed(_ key: String, _ conflict: String) -> StoreError {
        .refused(
            Problem(
                "already-sent", status: 409,
                detail: "the mutation \(key) of the same atomic list is in dispute: decide it first, with "
                    + "agentctl conflicts resolve \(conflict), then retry the list",
                members: ["state": .string(MutationState.conflicted.name)]))
    }

    static func alreadyResolved(_ name: String, _ state: String) -> StoreError {
        .refused(
            Problem(
                "already-resolved", status: 409, detail: "the conflict \(name) is \(state)", members: ["state": .string(state)]))
    }

    static func remoteMoved(_ conflict: ConflictRow, expected: Int64) -> StoreError {
        .refused(
            Problem(
                "version-mismatch", status: 409,
                detail: "the hub's record has version \(conflict.remoteVersion) by now, and version \(expected) was expected",
                errors: [Problem.Pointer("/expect_remote_version", "the present version is \(conflict.remoteVersion)")],
                members: [
                    "version": .int(conflict.remoteVersion), "fields": .array(conflict.sides.map(\.json)),
                ]))
    }

    static func validation(_ pointer: String, _ detail: String) -> StoreError {
        .refused(Problem("validation", status: 422, detail: detail, errors: [Problem.Pointer(pointer, detail)]))
    }

    static func tooLarge(_ what: String, bytes: Int, limit: Int) -> StoreError {
        .refused(Problem("too-large", status: 413, detail: "\(what) has \(bytes) bytes, the limit is \(limit)"))
    }

    /// - Parameter setting: The configuration key that an operator could raise.
    static func queueFull(_ detail: String, raise setting: String?) -> StoreError {
        var members: JSONObject = [:]
        members["setting"] = setting.map { .string($0) }
        return .refused(Problem("queue-full", status: 507, detail: detail, retryAfter: 60, members: members))
    }

    static func diskFull(free: Int64, kept: Int64) -> StoreError {
        .refused(
            Problem(
                "disk-full", status: 507, detail: "the file system has \(free) bytes free, and \(kept) must stay free (store.min_free)",
                retryAfter: 60))
    }

    /// The mirror's copy cannot be trusted, so no change can be checked against it.
    static func damaged(_ name: RecordName) -> StoreError {
        .refused(
            Problem(
                "read-only", status: 503, detail: "the local copy of \(name) is damaged and is being fetched again",
                retryAfter: 60))
    }
}
