// The bytes of files: those of this device, and those that come from the hub.
extension AgentClient {
    /// The bytes of a file in pieces of at most 64 KiB. Reading goes on where a connection broke.
    ///
    /// A file that another device brought comes from the hub, if a record that this app may read shows it. Behind the last piece the
    /// bytes are compared with the digest. If they differ, reading throws `digestMismatch`.
    ///
    /// - Parameters:
    ///   - file: Its id, its digest (`sha256:…`), the placeholder in a record, or a ``StoredFile``.
    ///   - wait: Time that reading waits for a file that is not on this device yet. When it is over, reading throws `blobFetching`, and
    ///     the file goes on coming. A file that the agent has given up is `blobNotFetched`; ``fetchFile(_:deadline:)`` tries it again.
    ///   - deadline: Time of each piece. Before the first one, `wait` comes on top of it.
    public func content(of file: some FileReference, wait: Duration = .zero, deadline: Duration? = nil) -> FileContent {
        FileContent(session: session, name: file.fileName, wait: wait, deadline: deadline)
    }

    /// All bytes of a file, in memory. The digest was compared.
    ///
    /// - Parameter max: Limit of bytes. The other parameters are those of ``content(of:wait:deadline:)``.
    /// - Throws: `tooLarge` if the file is larger.
    public func bytes(
        of file: some FileReference, max: Int = 16 << 20, wait: Duration = .zero, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> [UInt8] {
        var bytes: [UInt8] = []
        var pieces = content(of: file, wait: wait, deadline: deadline).makeAsyncIterator()
        while let piece = try await pieces.next(isolation: nil) {
            guard bytes.count + piece.count <= max else {
                throw EdgeSyncError(
                    .badAnswer, code: .tooLarge, "the file \(file.fileName) has more than \(max) bytes",
                    nextStep: "read it piece by piece, or save it to a path")
            }
            bytes += piece
        }
        return bytes
    }

    /// Copies a file to a path, and returns its size.
    ///
    /// The bytes go to a new file in the same folder. When all of them are there, were compared with the digest and are on flash, the new
    /// file gets the name, in place of a file that has it. So a reader of the path never sees a part. The other parameters are those of
    /// ``content(of:wait:deadline:)``.
    ///
    /// - Throws: Errors of the kind `localFile` if the file cannot be written, besides those of reading.
    @discardableResult
    public func saveFile(
        _ file: some FileReference, to path: String, wait: Duration = .zero, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> Int {
        let thread = try SocketThread()
        let target = SavedFile(path)
        try await thread.run { () throws(EdgeSyncError) in try target.open() }.get()
        let size = try await copy(file, wait, deadline, on: thread) { piece throws(EdgeSyncError) in try target.write(piece) }
        try await thread.run { () throws(EdgeSyncError) in try target.commit() }.get()
        return size
    }

    /// Writes the bytes of a file to a descriptor that the app has opened, and returns their number.
    ///
    /// The digest is compared behind the last byte: after an error, what was written is of no use. The descriptor must stay open until
    /// this returns, and its writes must wait. The other parameters are those of ``content(of:wait:deadline:)``.
    ///
    /// - Throws: Errors of the kind `localFile` if the descriptor cannot be written, besides those of reading.
    @discardableResult
    public func copyFile(
        _ file: some FileReference, into descriptor: Int32, wait: Duration = .zero, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> Int {
        let thread = try SocketThread()
        return try await copy(file, wait, deadline, on: thread) { piece throws(EdgeSyncError) in
            try SavedFile.write(piece, to: descriptor, "descriptor \(descriptor)")
        }
    }

    /// A disk may take its time, so each piece is written on a thread.
    private func copy(
        _ file: some FileReference, _ wait: Duration, _ deadline: Duration?, on thread: SocketThread,
        _ write: @escaping @Sendable ([UInt8]) throws(EdgeSyncError) -> Void
    ) async throws(EdgeSyncError) -> Int {
        var size = 0
        var pieces = content(of: file, wait: wait, deadline: deadline).makeAsyncIterator()
        while let piece = try await pieces.next(isolation: nil) {
            try await thread.run { () throws(EdgeSyncError) in try write(piece) }.get()
            size += piece.count
        }
        return size
    }

    // MARK: Fetching

    /// Lets a file come from the hub, also one that was set aside. The call does not wait for its bytes.
    ///
    /// A feed of the type `blob` tells when it has come. ``StoredFile/isKept`` is `true` then.
    @discardableResult
    public func fetchFile(_ file: some FileReference, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        try await command("fetch", file.fileName, deadline)
    }

    /// Keeps a file on this device when others need room, and lets it come from the hub if it is not here.
    @discardableResult
    public func pinFile(_ file: some FileReference, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        try await command("pin", file.fileName, deadline)
    }

    /// Ends ``pinFile(_:deadline:)``. The file stays until others need its room.
    @discardableResult
    public func unpinFile(_ file: some FileReference, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        try await command("unpin", file.fileName, deadline)
    }

    private func command(_ word: String, _ name: String, _ deadline: Duration?) async throws(EdgeSyncError) -> StoredFile {
        _ = try FileDigest.expected(by: name)
        // None of these routes takes a body.
        let request = try Request("POST", try Request.path("blobs", name, word))
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try StoredFile(it) }
    }
}
