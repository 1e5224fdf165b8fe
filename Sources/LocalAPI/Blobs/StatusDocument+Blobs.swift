package import SyncCore

extension StatusDocument {
    /// Numbers of files by state; absent from an agent that accepts none.
    package struct Blobs: Hashable, Sendable {
        package var pending: Int64
        /// Number of pending files with a running request.
        package var uploading: Int64
        package var failed: Int64
        package var missing: Int64
        package var uploaded: Int64
        /// Bytes that are still to be uploaded.
        package var bytesPending: Int64
        /// Bytes that are kept on this device.
        package var bytesKept: Int64
        /// Number of files that come from the hub and are not here yet.
        package var fetching: Int64
        /// Number of files that came from the hub.
        package var fetched: Int64
        /// Number of files that could not be fetched and were set aside.
        package var fetchFailed: Int64
        /// Bytes that are still to come.
        package var bytesFetching: Int64
        /// The reason why the first pending file waits, if it does: a reason code of the policy.
        package var reason: String?
        package var until: Timestamp?
        package var event: String?

        package init(
            pending: Int64 = 0, uploading: Int64 = 0, failed: Int64 = 0, missing: Int64 = 0, uploaded: Int64 = 0,
            bytesPending: Int64 = 0, bytesKept: Int64 = 0, fetching: Int64 = 0, fetched: Int64 = 0, fetchFailed: Int64 = 0,
            bytesFetching: Int64 = 0, reason: String? = nil, until: Timestamp? = nil, event: String? = nil
        ) {
            self.pending = pending
            self.uploading = uploading
            self.failed = failed
            self.missing = missing
            self.uploaded = uploaded
            self.bytesPending = bytesPending
            self.bytesKept = bytesKept
            self.fetching = fetching
            self.fetched = fetched
            self.fetchFailed = fetchFailed
            self.bytesFetching = bytesFetching
            self.reason = reason
            self.until = until
            self.event = event
        }

        func write(to writer: inout JSONWriter) {
            writer.member("pending", pending)
            writer.member("uploading", uploading)
            writer.member("failed", failed)
            writer.member("missing", missing)
            writer.member("uploaded", uploaded)
            writer.member("bytes_pending", bytesPending)
            writer.member("bytes_kept", bytesKept)
            writer.member("fetching", fetching)
            writer.member("fetched", fetched)
            writer.member("fetch_failed", fetchFailed)
            writer.member("bytes_fetching", bytesFetching)
            guard let reason else { return }
            writer.members("deferred") { writer in
                writer.member("reason", reason)
                writer.time("until", until)
                writer.member("event", event)
            }
        }

        init(_ reader: AnswerReader) {
            self.init(
                pending: reader.int("pending") ?? 0, uploading: reader.int("uploading") ?? 0, failed: reader.int("failed") ?? 0,
                missing: reader.int("missing") ?? 0, uploaded: reader.int("uploaded") ?? 0,
                bytesPending: reader.int("bytes_pending") ?? 0, bytesKept: reader.int("bytes_kept") ?? 0,
                fetching: reader.int("fetching") ?? 0, fetched: reader.int("fetched") ?? 0,
                fetchFailed: reader.int("fetch_failed") ?? 0, bytesFetching: reader.int("bytes_fetching") ?? 0)
            let waits = reader.inside("deferred")
            reason = waits.text("reason")
            until = waits.time("until")
            event = waits.text("event")
        }

        /// `true` when there is nothing to show.
        var isNothing: Bool { pending == 0 && failed == 0 && missing == 0 && fetching == 0 && fetchFailed == 0 }
    }
}

extension StatusDocument.Blobs {
    /// The files that come from the hub, in words; `nil`: there are none.
    fileprivate func comes(_ count: (Int64) -> String) -> String? {
        guard fetching > 0 || fetchFailed > 0 else { return nil }
        var text = "\(count(fetching)) fetching"
        if bytesFetching > 0, fetching > 0 { text += " (\(SizeText.readable(bytesFetching)))" }
        if fetchFailed > 0 { text += ", \(count(fetchFailed)) not fetched" }
        return text
    }
}

extension StatusRows {
    /// The row between waiting work and its cost; absent while no file waits.
    var blobs: StatusRow? {
        guard let blobs = document.blobs, !blobs.isNothing else { return nil }
        let comes = blobs.comes(count)
        if let comes, blobs.pending == 0, blobs.failed == 0, blobs.missing == 0 {
            return StatusRow("BLOBS", [comes], blobs.fetchFailed > 0 ? .warning : .plain, wrapsTo: 2)
        }
        var text = "\(count(blobs.pending)) pending"
        if blobs.bytesPending > 0 { text += " (\(SizeText.readable(blobs.bytesPending)))" }
        text += ", \(count(blobs.uploading)) uploading, \(count(blobs.failed)) failed"
        if blobs.missing > 0 { text += ", \(count(blobs.missing)) MISSING" }
        var texts = [text]
        if let comes { texts.append(comes) }
        if let reason = blobs.reason, blobs.uploading == 0, blobs.pending > 0 {
            var why = "they wait: " + words(reason)
            switch (blobs.until, blobs.event) {
            case (let until?, let event?): why += ", until \(clock(until)) or \(event)"
            case (let until?, nil): why += ", until " + clock(until)
            case (nil, let event?): why += "; " + event
            case (nil, nil): break
            }
            texts.append(why)
        }
        if blobs.failed > 0 || blobs.missing > 0 { texts.append("-> agentctl blobs list --state failed,missing") }
        let tone: StatusRow.Tone = blobs.missing > 0 ? .bad : blobs.failed > 0 || blobs.reason != nil ? .warning : .plain
        return StatusRow("BLOBS", texts, tone, wrapsTo: 2)
    }
}
