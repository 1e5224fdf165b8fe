import SyncCore

/// The output of `agentctl blobs list` and `show` for people.
package enum BlobsScreen {
    package static func list(_ items: [BlobItem], width: Int) -> [String] {
        guard !items.isEmpty else { return ["no files"] }
        var table = TextTable([
            .init("BLOB"), .init("WAY"), .init("STATE"), .init("DONE", .right), .init("SIZE", .right), .init("TYPE", widthMin: 6),
            .init("NAME", widthMin: 8), .init("USED BY", widthMin: 12),
        ])
        for item in items { table.add(cells(item)) }
        return table.lines(width: width)
    }

    /// One line for scripts and logs.
    package static func line(_ item: BlobItem) -> String {
        PlainText.safe(cells(item).filter { !$0.isEmpty }.joined(separator: "  "))
    }

    private static func cells(_ item: BlobItem) -> [String] {
        let link = item.links.first.map { "\($0.record) \($0.field)" } ?? ""
        // Bytes that came and left are told here: a person who sees `fetched` expects them. Bytes that were uploaded are safe at the hub.
        let standing = state(item) + (item.state == FetchState.fetched.word && !item.isKept ? ", not kept" : "")
        return [item.id, way(item), standing, "\(item.percent) %", SizeText.readable(item.size), item.type, item.filename, link]
    }

    package static func show(_ item: BlobItem, width: Int) -> [String] {
        var lines = [
            "\(item.id)  \(item.filename.isEmpty ? "(no name)" : item.filename)  \(item.type)",
            // With a label instead of the prefix it fits into a line of 80 columns.
            "sha256    \(item.digest.split(separator: ":").last ?? "")",
            "size      \(PlainText.count(item.size)) bytes",
            "state     \(state(item))"
                + (item.state == "uploaded" ? (item.isVerified ? ", digest compared" : ", digest not compared") : ""),
        ]
        if item.direction == .down { lines.append("way       from the hub to this device") }
        if item.isPinned { lines.append("pinned    yes: it does not leave this device to make room") }
        if item.state != "uploaded", item.state != FetchState.fetched.word {
            lines.append("progress  \(PlainText.count(item.offset)) of \(PlainText.count(item.size)) bytes (\(item.percent) %)")
        }
        if item.attempts > 0 { lines.append("attempts  \(item.attempts) without progress") }
        if let error = item.error { lines.append("error     \(error)") }
        for link in item.links { lines.append("shown by  \(link.record) \(link.field)") }
        if !item.isKept {
            let isComing = item.direction == .down && item.state != FetchState.fetched.word
            lines.append(
                isComing
                    ? "kept      no: the file can be read when it is complete" : "kept      no: the bytes are not on this device any more")
        }
        return lines.map { PlainText.clip(PlainText.safe($0), to: width) }
    }

    /// The direction, with a mark for a pinned file.
    private static func way(_ item: BlobItem) -> String { item.direction.rawValue + (item.isPinned ? ", pinned" : "") }

    private static func state(_ item: BlobItem) -> String {
        guard let deferral = item.deferral, item.state == "pending" || item.state == FetchState.fetching.word else { return item.state }
        return "\(item.state) (\(deferral.reason))"
    }
}
