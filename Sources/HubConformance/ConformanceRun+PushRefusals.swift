import SyncCore

// Pushes that are refused as a whole, and the forms that a body may have (PROTOCOL A4, A5, A6, A9).
extension ConformanceRun {
    func checkPushRefusals() async {
        await checkLimits()
        await checkForms()
        await check("push-regressed", "A6", "A database that remembers less than it had sent hears 409 replica-regressed.") {
            let answer = try await post("/v1/sync/push", pushBody([], extra: ["max_sent_seq": 1]))
            try refusal(answer, 409, "replica-regressed")
            return "409"
        }
        await check(
            "push-other-epoch", "A6", "A push that is meant for another history is 410 epoch-changed, and nothing of it is applied."
        ) {
            let one = mutation(.create, newRecord(), ["n": 1])
            let answer = try await post("/v1/sync/push", pushBody([one]), changed: [(HubHeader.epoch, "conformance-no-such-epoch")])
            try refusal(answer, 410, "epoch-changed")
            let id = RecordID(trusted: one["record_id"]?.text ?? "")
            try require(try await stored(id) == nil, "410, and the record is there")
            return "410"
        }
        await check("push-own-epoch", "A6", "A push that names the present history is taken.") {
            let answer = try await post("/v1/sync/push", pushBody([]), changed: [(HubHeader.epoch, hello?.epoch)])
            _ = try body(answer)
            return "200"
        }
    }

    private func checkLimits() async {
        await check("push-many", "A4", "More than 500 mutations in one push are 413 too-large.") {
            let many = (0...Limits.batchMutationsMax).map { _ in mutation(.delete, newRecord()) }
            try refusal(try await post("/v1/sync/push", pushBody(many)), 413, "too-large")
            return "413 for \(many.count)"
        }
        await check("push-payload", "A4", "More than 1 MiB of payload in one push is 413 too-large.") {
            let filler = JSON.string(String(repeating: "x", count: 120_000))
            let heavy = (0..<10).map { _ in mutation(.create, newRecord(), ["text": filler]) }
            let answer = try await post("/v1/sync/push", pushBody(heavy))
            if answer.status == 200 { _ = try await verdicts(heavy) }  // so that it is cleaned up
            try refusal(answer, 413, "too-large")
            return "413"
        }
        await check(
            "push-one-too-large", "A4", "One mutation of more than 128 KiB is rejected as too-large, alone or with 413 when it is alone."
        ) {
            let filler = JSON.string(String(repeating: "x", count: Limits.mutationBytes))
            let answer = try await post("/v1/sync/push", pushBody([mutation(.create, newRecord(), ["text": filler])]))
            if answer.status == 413 {
                try refusal(answer, 413, "too-large")
                return "413"
            }
            let verdict = try PushMessages.readResponse(try body(answer)).results.first?.verdict
            guard case .rejected(let problem, _)? = verdict, problem.code == "too-large" else {
                throw Deviation(verdict.map { word($0) } ?? "no result")
            }
            return "rejected"
        }
        await check("push-body", "A9", "A body of more than 4 MiB is 413 too-large.") {
            let body = pushBody([]).bytes
            let answer = try await send(
                .post, "/v1/sync/push", body + [UInt8](repeating: UInt8(ascii: " "), count: Limits.hubRequestBytes + 1 - body.count))
            try refusal(answer, 413, "too-large")
            return "413"
        }
        await check(
            "push-too-deep", "A4", "A document of more than 32 levels is rejected as validation, and what stands beside it is accepted."
        ) {
            let deep = (0..<40).reduce(JSON.int(1)) { inner, _ in .array([inner]) }
            let words = try await verdicts([mutation(.create, newRecord(), ["deep": deep]), mutation(.create, newRecord(), ["n": 1])]).map {
                word($0.verdict)
            }
            try require(words[0].hasPrefix("rejected: validation") && words[1].hasPrefix("accepted"), words.joined(separator: "; "))
            return "rejected, accepted"
        }
    }

    private func checkForms() async {
        func malformed(_ text: String) async throws -> String {
            try refusal(try await send(.post, "/v1/sync/push", Array(text.utf8)), 400, "malformed")
            return "400 malformed"
        }
        await check("push-not-json", "A5", "A push that is no JSON is 400 malformed.") { try await malformed("{\"mutations\":[") }
        await check("push-no-list", "A5", "A push whose mutations are no list is 400 malformed.") {
            try await malformed("{\"mutations\":{}}")
        }
        await check("push-key-missing", "A4", "A mutation without a key is 400 malformed, and `errors` points at it.") {
            var one = mutation(.create, newRecord(), ["n": 1])
            one["idempotency_key"] = nil
            let problem = try refusal(try await post("/v1/sync/push", pushBody([one])), 400, "malformed")
            let pointers = problem.errors.map(\.pointer)
            try require(pointers.contains { $0.hasPrefix("/mutations/0") }, "errors point at \(pointers)")
            return "400 at \(pointers.joined(separator: ", "))"
        }
        await check("push-key-twice", "A4", "One key twice in a push is 400 malformed.") {
            let one = mutation(.create, newRecord(), ["n": 1])
            try refusal(try await post("/v1/sync/push", pushBody([one, one])), 400, "malformed")
            return "400"
        }
        await check("push-replica-missing", "A1", "A push that does not say for which database it speaks is 400 malformed.") {
            try refusal(try await post("/v1/sync/push", pushBody([]), changed: [(HubHeader.replica, nil)]), 400, "malformed")
            return "400"
        }
        await check("push-gzip", "A9", "A gzipped body is read where hello offers it; else it is 415 with Accept-Encoding.") {
            let one = mutation(.create, newRecord(), ["text": .string(String(repeating: "compressible ", count: 100))])
            guard let packed = compressor.gzip(pushBody([one]).bytes) else { throw NotTried("it could not be compressed") }
            let answer = try await send(.post, "/v1/sync/push", packed, changed: [("Content-Encoding", "gzip")])
            guard hello?.capabilities.contains("gzip") == true else { return try unsupported(answer) }
            guard case .accepted? = try PushMessages.readResponse(try body(answer)).results.first?.verdict else {
                throw Deviation("it was not accepted\(said(answer))")
            }
            records[RecordID(trusted: one["record_id"]?.text ?? "")] = 0
            return "accepted"
        }
        await check("push-gzip-broken", "A9", "A body that says gzip and is not is 400 malformed.") {
            try offered("gzip")
            let answer = try await send(.post, "/v1/sync/push", pushBody([]).bytes, changed: [("Content-Encoding", "gzip")])
            try refusal(answer, 400, "malformed")
            return "400"
        }
        await check(
            "push-coding-unknown", "A9", "A content coding that the server does not read is 415 encoding-unsupported with Accept-Encoding."
        ) {
            let answer = try await send(.post, "/v1/sync/push", pushBody([]).bytes, changed: [("Content-Encoding", "x-conformance")])
            return try unsupported(answer)
        }
    }

    private func unsupported(_ answer: HTTPResponse) throws -> String {
        try refusal(answer, 415, "encoding-unsupported")
        guard let said = answer.headers["Accept-Encoding"] else { throw Deviation("415 without Accept-Encoding") }
        return "415, Accept-Encoding: \(Printable.text(said, max: 60))"
    }
}
