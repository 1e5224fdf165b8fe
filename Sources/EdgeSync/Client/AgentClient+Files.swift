extension AgentClient {
    /// Gives a file to the agent. The file is copied and on flash when this returns, and the original may change or go.
    ///
    /// Equal bytes are one file to the agent, so a repeat needs no key.
    ///
    /// - Parameters:
    ///   - path: Path of a regular file.
    ///   - filename: Name for people; the last part of the path if `nil`.
    ///   - type: Media type.
    ///   - reader: `app` sends the bytes. With `agent` the agent opens the file, which must be below a folder that its
    ///     configuration names.
    public func addFile(
        at path: String, filename: String? = nil, type: String = "application/octet-stream",
        readBy reader: StoredFile.Reader = .app, deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> StoredFile {
        let name = filename ?? path.split(separator: "/").last.map { String($0) } ?? ""
        switch reader {
        case .app: return try await addFile(.file(path: path), name, type, deadline)
        case .agent:
            let body: JSONObject = ["path": .string(path)]
            let request = try Request(
                "POST", "/v1/blobs" + Request.query([("filename", name), ("type", type)]),
                fields: [("Content-Type", "application/json"), ("Blob-Source", "path")],
                body: .bytes(try JSONWriter.bytes(of: body)), silence: Limits.fileTime)
            return try await session.ask(request, deadline ?? Limits.fileTime) { it throws(EdgeSyncError) in try StoredFile(it) }
        }
    }

    /// Gives bytes to the agent as a file. They are on flash when this returns.
    public func addFile(
        bytes: [UInt8], filename: String, type: String = "application/octet-stream", deadline: Duration? = nil
    ) async throws(EdgeSyncError) -> StoredFile {
        try await addFile(.bytes(bytes), filename, type, deadline)
    }

    private func addFile(
        _ body: Request.Body, _ filename: String, _ type: String, _ deadline: Duration?
    ) async throws(EdgeSyncError) -> StoredFile {
        let request = try Request(
            "POST", "/v1/blobs" + Request.query([("filename", filename.isEmpty ? nil : filename)]),
            fields: [("Content-Type", type)], body: body, silence: Limits.fileTime)
        return try await session.ask(request, deadline ?? Limits.fileTime) { it throws(EdgeSyncError) in try StoredFile(it) }
    }

    /// Reads the state of a file and of its upload.
    public func file(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        try await session.ask(try Request("GET", try Request.path("blobs", id)), deadline) { it throws(EdgeSyncError) in
            try StoredFile(it)
        }
    }

    /// The files that the agent knows and this app may see, page by page as they are read.
    ///
    /// - Parameter deadline: Time of each page.
    public func files(states: [String] = [], deadline: Duration? = nil) -> Pages<StoredFile> {
        Pages { [session] after throws(EdgeSyncError) in
            let query = Request.query([
                ("state", states.isEmpty ? nil : states.joined(separator: ",")), ("after", after),
                ("limit", String(Limits.pageItems)),
            ])
            return try await session.ask(try Request("GET", "/v1/blobs" + query), deadline) { it throws(EdgeSyncError) in
                try Page(it) { item throws(EdgeSyncError) in try StoredFile(item) }
            }
        }
    }

    /// Tries a failed file again, in either direction.
    @discardableResult
    public func retryFile(_ id: String, deadline: Duration? = nil) async throws(EdgeSyncError) -> StoredFile {
        // The route takes no body, not even an empty object.
        let request = try Request("POST", try Request.path("blobs", id, "retry"))
        return try await session.ask(request, deadline) { it throws(EdgeSyncError) in try StoredFile(it) }
    }
}

extension StoredFile {
    /// The program that reads the bytes of a file that is added.
    public enum Reader: Sendable {
        case app, agent
    }
}
