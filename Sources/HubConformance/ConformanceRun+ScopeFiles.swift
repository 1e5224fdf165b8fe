import SyncCore

// Files that records show (PROTOCOL A16, H2): who may fetch them, and for how long.
extension ConformanceRun {
    func checkShownFiles() async {
        let content = (0..<700).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let id = newRecord()
        var shown: BlobDigest?
        await check("scope-file-shown", "A16, H2", "A device fetches a file of another device that a record shows which it receives.") {
            let digest = try await bring(content)
            try await accepted(
                .second, try order(.create, id, ["site": .string(stage.south), "photo": placeholder(digest, content.count)]))
            try await accepted(.office, try order(.update, id, ["site": .list([stage.north, stage.south])]))
            let answer = try await ask(.first, .get, "/v1/blobs/\(digest)")
            try require(answer.status == 200 && answer.body == content, "GET is \(answer.status) with \(answer.body.count) bytes")
            shown = digest
            return "the same \(content.count) bytes"
        }
        await check(
            "scope-file-withdrawn", "A16, H2", "After the record has left its share, the device gets the answer of a file that never was."
        ) {
            guard let digest = shown else { throw NotTried("scope-file-shown failed") }
            try await accepted(.office, try order(.update, id, ["site": .string(stage.south)]))
            return try await isWithheld(digest)
        }
        await check("scope-file-digest", "A16, H2", "To write its digest into a record of the device's own gives no right to the file.") {
            guard let digest = shown else { throw NotTried("scope-file-shown failed") }
            let own = newRecord()
            try await accepted(
                .first, try order(.create, own, ["site": .string(stage.north), "photo": placeholder(digest, content.count)]))
            return try await isWithheld(digest)
        }
        await check(
            "scope-file-unnamed", "H2", "After the last record has ceased to name the file, a device that has not brought it gets 404."
        ) {
            guard let digest = shown else { throw NotTried("scope-file-shown failed") }
            try await accepted(.office, try order(.update, id, ["site": .list([stage.north, stage.south])]))
            let answer = try await ask(.first, .head, "/v1/blobs/\(digest)")
            try require(answer.status == 200, "HEAD is \(answer.status) while the record shows the file again")
            try await accepted(.second, try order(.update, id, ["photo": "none"]))
            return try await isWithheld(digest)
        }
        await checkOfferedFile()
    }

    private func checkOfferedFile() async {
        let content = (0..<500).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let (own, theirs) = (newRecord(), newRecord())
        await check(
            "scope-file-offered", "H2",
            "A record that waits for a file shows it, once its device offers the file, may read it by then, and need not bring it."
        ) {
            let digest = try await bring(content)
            let waiting = placeholder(digest, content.count, isUploaded: false)
            try await accepted(.first, try order(.create, own, ["site": .string(stage.north), "photo": waiting]))
            _ = try await isWithheld(digest)
            try await accepted(
                .second, try order(.create, theirs, ["site": .string(stage.south), "photo": placeholder(digest, content.count)]))
            try await accepted(.office, try order(.update, theirs, ["site": .list([stage.north, stage.south])]))
            let offer = try await ask(.first, .head, "/v1/blobs/\(digest)", changed: [(Tus.length, String(content.count))])
            try require(offer.status == 200, "HEAD is \(offer.status) while a record of the device's share shows the file")
            // Only the device's own record is left to show the file to it.
            try await accepted(.office, try order(.update, theirs, ["site": .string(stage.south)]))
            let answer = try await ask(.first, .get, "/v1/blobs/\(digest)")
            try require(answer.status == 200 && answer.body == content, "GET is \(answer.status) with \(answer.body.count) bytes")
            return "the same \(content.count) bytes"
        }
    }

    /// Uploads a file as the second device.
    ///
    /// - Throws: ``NotOffered`` for a server that hands out only what a device has brought itself: it does not announce ranges.
    private func bring(_ content: [UInt8]) async throws -> BlobDigest {
        try offered("tus")
        _ = try orders()
        guard let digest = BlobDigest(bytes: SHA256.hash(content)) else { throw NotTried("no digest") }
        let place = try await create(content.count, digest, from: try other())
        let answer = try await patch(place, at: 0, content, changed: try other())
        try require(answer.status == 204, "the second device's upload is \(answer.status)\(said(answer))")
        left.append("one file of \(content.count) bytes, \(digest)")
        _ = try await handsOut(digest, .second)
        return digest
    }

    private func placeholder(_ digest: BlobDigest, _ size: Int, isUploaded: Bool = true) -> JSON {
        Placeholder(digest: digest, size: Int64(size), type: "application/octet-stream", isUploaded: isUploaded).json
    }

    /// The file has the answers of one that never was.
    private func isWithheld(_ digest: BlobDigest) async throws -> String {
        guard let nobodys = BlobDigest(bytes: SHA256.hash(digest.bytes)) else { throw NotTried("no digest") }
        for method in [HTTPRequest.Method.head, .get] {
            let answers = (
                try await ask(.first, method, "/v1/blobs/\(digest)"), try await ask(.first, method, "/v1/blobs/\(nobodys)")
            )
            try require(answers.0.status == 404, "\(method.rawValue) is \(answers.0.status)")
            try requireAlike(answers.0, ["\(digest)", digest.hex], answers.1, ["\(nobodys)", nobodys.hex])
        }
        return "404"
    }
}
