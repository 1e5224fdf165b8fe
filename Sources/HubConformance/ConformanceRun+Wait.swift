import SyncCore

// Pulls that may wait for news (PROTOCOL A3). A server need not know them: then it answers at once, and says nothing about the preference.
extension ConformanceRun {
    /// - Parameters:
    ///   - end: A cursor with nothing behind it.
    ///   - began: A cursor with records behind it.
    func checkWait(_ end: String?, _ began: String) async {
        await check(
            "pull-wait", "A3", "A pull that may wait has the same answer as one that may not; a server that let it wait says so."
        ) {
            guard let end else { throw NotTried("pull-changes failed") }
            let answer = try await waitingPull(end, prefer: WaitPreference.text(1))
            let pages = try PullMessages.readResponse(try body(answer))
            try require(pages.errors.isEmpty, "the problem \(pages.errors.first?.problem.code ?? "")")
            let ours = pages.pages.flatMap(\.records).filter { isOurs($0.id) }.count
            try require(ours == 0, "\(ours) records again")
            guard let applied = answer.headers[WaitPreference.appliedField] else { return "it does not wait" }
            try require(
                WaitPreference.seconds(in: applied) == 1, "\(WaitPreference.appliedField): \(Printable.text(applied, max: 60)), not wait=1")
            return applied
        }
        await check("pull-wait-news", "A3", "A pull that may wait and has news brings them at once.") {
            let answer = try PullMessages.readResponse(try body(try await waitingPull(began, prefer: WaitPreference.text(1))))
            let same = try await pull([(settings.entity, began)], limit: 500)
            try require(answer.pages.first?.records.map(\.id) == same.pages.first?.records.map(\.id), "another page than without a wait")
            return "the same page"
        }
        await check("pull-wait-malformed", "A3", "A preference that cannot be read is ignored (RFC 7240, section 2).") {
            guard let end else { throw NotTried("pull-changes failed") }
            for text in ["wait", "wait=soon", "wait=-1", "=,;\""] {
                let answer = try await waitingPull(end, prefer: text)
                try require(answer.status == 200, "\(answer.status) for Prefer: \(text)\(said(answer))")
                let applied = answer.headers[WaitPreference.appliedField]
                try require(applied == nil, "\(WaitPreference.appliedField): \(Printable.text(applied ?? "", max: 60)) for Prefer: \(text)")
            }
            return "200"
        }
    }

    private func waitingPull(_ cursor: String, prefer: String) async throws -> HTTPResponse {
        let request = PullRequest(
            streams: [StreamPosition(entity: settings.entity, cursor: cursor)], limit: 500, maxBytes: Limits.pullBytes, maxSentSeq: lastSeq)
        return try await send(
            .post, "/v1/sync/pull", PullMessages.request(request), changed: [(WaitPreference.field, prefer)])
    }
}
