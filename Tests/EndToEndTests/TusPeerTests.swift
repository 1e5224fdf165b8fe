import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Programs of others at the other end: tuspyserver takes what our agent sends, tuspy sends to our hub.
    ///
    /// `EDGE_SYNC_PYTHON` names a Python that has both (`deploy/test` makes one with pip).
    @Suite("Other people's tus", .disabled(if: TusPeers.python == nil, "EDGE_SYNC_PYTHON names no Python with tuspyserver and tuspy"))
    struct TusPeerTests {
        private static let entities = "      audits: { kind: record }"

        @Test("Our agent uploads to tuspyserver, fetches the file back to compare it, and then replaces the placeholder itself")
        func client() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let server = try await TusServer(on: stand)
                try await stand.send(to: server.url)
                let (path, digest) = try stand.file("p.jpg", bytes: 5_000_000)
                let added = try await stand.agentctl("blobs", "add", path, "--for", "audits/a-17", "--field", "photo", "--json")
                let item = try #require(BlobItem(try JSONReader.read(added.text)), "\(added.talk)")
                try await stand.untilUploaded([item.id])
                #expect(try server.digests() == [digest])
                #expect(try await stand.client.blob(try #require(BlobID(item.id))).value.isVerified)
                _ = try await stand.settle()
                let photo = try #require(try await stand.hubRecords("audits").first?.data["photo"]?.object)
                #expect(photo["state"]?.text == "uploaded")
                #expect(photo["remote_url"]?.text?.hasPrefix(server.url) == true)
                await server.stop()
            }
        }

        @Test("tuspyserver is killed within a piece, again and again: what it then corrupts is noticed and sent anew")
        func killedServer() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let server = try await TusServer(on: stand)
                try await stand.send(to: server.url)
                let (path, digest) = try stand.file("p.bin", bytes: 60_000_000)
                let added = try await stand.agentctl("blobs", "add", path, "--json")
                let item = try #require(BlobItem(try JSONReader.read(added.text)), "\(added.talk)")
                for round in 1...3 {
                    // A few pieces further, and then in the middle of one.
                    await server.until(bytes: Int64(round) * 12_000_000)
                    try await server.killAndRestart()
                }
                try await stand.untilUploaded([item.id], retries: true)
                let blob = try await stand.client.blob(try #require(BlobID(item.id))).value
                #expect(blob.isVerified)
                #expect(try server.digests().contains(digest))
                await server.stop()
            }
        }

        @Test("tuspy uploads to our hub in pieces, and goes on after a cut where the hub stands")
        func server() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let (path, digest) = try stand.file("p.bin", bytes: 3_000_000)
                let token = try await stand.token(for: "visitor")
                let script = """
                    import sys
                    from tusclient import client
                    path, url, token = sys.argv[1:4]
                    c = client.TusClient(url, headers={"Authorization": "Bearer " + token})
                    first = c.uploader(path, chunk_size=700_000, metadata={"filename": "p.bin", "filetype": "application/x"})
                    first.upload_chunk()
                    first.upload_chunk()
                    again = c.uploader(path, chunk_size=700_000, url=first.url)
                    assert again.get_offset() == 1_400_000, again.get_offset()
                    again.offset = again.get_offset()
                    again.upload()
                    print(again.get_offset() if False else "done")
                    """
                let output = try await Child.run(
                    [try #require(TusPeers.python), "-c", script, path, "\(await stand.hubURL)/v1/files", token], in: stand.folder)
                #expect(output.status == 0, "\(output.talk)")
                #expect(try stand.hubBytes(digest).map { SHA256.hash($0) } == digest.bytes)
            }
        }
    }
}

extension Stand {
    /// From its next start on the agent brings its files to another server.
    func send(to url: String) async throws {
        await stopAgent()
        uploadURL = url
        try await startAgent()
    }
}

enum TusPeers {
    /// A Python with tuspyserver and tuspy.
    static let python = ProcessInfo.processInfo.environment["EDGE_SYNC_PYTHON"].flatMap { access($0, X_OK) == 0 ? $0 : nil }
}

/// A tuspyserver on this machine, with a way to fetch files back beside it.
private final class TusServer {
    let url: String
    private let stand: Stand
    private let port: UInt16
    private var child: Child?

    private static let script = """
        import os, sys
        import uvicorn
        from fastapi import FastAPI
        from fastapi.responses import FileResponse
        from tuspyserver import create_tus_router
        files, port = sys.argv[1], int(sys.argv[2])
        app = FastAPI()
        app.include_router(create_tus_router(prefix="files", files_dir=files))
        @app.get("/files/{uuid}")
        def fetch(uuid: str):
            return FileResponse(os.path.join(files, os.path.basename(uuid)))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
        import asyncio
        async def main():
            task = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            print("ready", flush=True)
            await task
        asyncio.run(main())
        """

    init(on stand: Stand) async throws {
        self.stand = stand
        port = try FreePorts.take(1)[0]
        url = "http://127.0.0.1:\(port)/files"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await start()
    }

    private var folder: String { "\(stand.folder)/tus" }

    private func start() async throws {
        let pipe = try LinePipe()
        guard let python = TusPeers.python else { throw StandError("no python") }
        let child = try Child(
            [python, "-c", Self.script, folder, String(port)], log: "\(stand.folder)/tus.log", output: pipe.writingEnd)
        guard await pipe.line() == "ready" else {
            await child.stop(SIGKILL)
            throw StandError(
                "tuspyserver did not start: " + ((try? String(contentsOfFile: "\(stand.folder)/tus.log", encoding: .utf8)) ?? ""))
        }
        self.child = child
    }

    func stop() async { await child?.stop(SIGKILL) }

    func killAndRestart() async throws {
        await stop()
        try await start()
    }

    /// Until its folder holds that many bytes, or it gets no more.
    func until(bytes: Int64) async {
        let end = ContinuousClock.now + FieldStand.patience
        while ContinuousClock.now < end {
            let sizes = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap { name in
                (try? FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)"))?[.size] as? Int64
            }
            if sizes.reduce(0, +) >= bytes { return }
            await Pause.short()
        }
    }

    /// The digests of the files that it has, without its notes about them.
    func digests() throws -> [BlobDigest] {
        try FileManager.default.contentsOfDirectory(atPath: folder).filter { !$0.contains(".") }.compactMap { name in
            guard let content = FileManager.default.contents(atPath: "\(folder)/\(name)") else { return nil }
            let hash = FileHash()
            hash.update(Array(content))
            return hash.blobDigest
        }
    }
}
