import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// The proxies before a hub in most data centres, with their default settings (the manual, *Connection limits*).
    @Suite("Proxies before the hub")
    struct ReverseProxyTests {
        private static let entities = """
                  readings: { kind: event }
                  audits: { kind: record }
            """

        @Test(
            "Large batches, a photo and the records of others pass each of them whole, and a proxy that loses its hub decides nothing",
            arguments: ReverseProxy.Program.allCases.filter(\.isInstalled))
        func passes(_ program: ReverseProxy.Program) async throws {
            try await Stand.with(entities: Self.entities, agent: false) { stand in
                let proxy = try await ReverseProxy(program, before: await stand.hubPort, in: stand.folder)
                await stand.placeBetween(proxy.url)
                do {
                    try await stand.startAgent()
                    try await Self.work(through: program, stand)
                } catch {
                    await proxy.stop()
                    throw error
                }
                await proxy.stop()
            }
        }

        private static func work(through program: ReverseProxy.Program, _ stand: Stand) async throws {
            // The work is more than nginx accepts in one request, also when it is compressed.
            for number in 1...60 {
                let reading = NewMutation(
                    .create, EntityName(trusted: "readings"), nil,
                    data: ["n": .int(Int64(number)), "noise": .string(Noise.hexadecimal(60_000))])
                #expect(try await stand.client.enqueue(reading).status == 201)
            }
            let (path, digest) = try stand.file("rail.jpg", bytes: 3_500_000)
            let added = try await stand.agentctl("blobs", "add", path, "--for", "audits/a-1", "--field", "photo", "--json")
            let photo = try #require(BlobItem(try JSONReader.read(added.text)))
            #expect(try await stand.settle().outbox.count(.done) >= 60)
            try await stand.untilUploaded([photo.id])
            #expect(try stand.hubBytes(digest).map { SHA256.hash($0) } == digest.bytes)
            #expect(try await stand.hubRecords("readings").compactMap { $0.data["n"]?.int }.sorted() == Array(1...60))

            // The proxy answers in the hub's place now: 502 or 503, with a page.
            await stand.stopHub()
            let id = try await stand.client.enqueue(
                NewMutation(.update, EntityName(trusted: "audits"), RecordID(trusted: "a-1"), data: ["ok": true])
            ).value.id
            #expect(try await stand.sync() != "ok")
            let waiting = try await stand.client.mutation(id).value
            #expect(["pending", "in_flight"].contains(waiting.state), "\(waiting.state)")
            try await stand.startHub()
            _ = try await stand.settle()
            #expect(try await stand.hubRecords("audits").first?.data["ok"] == true)
        }
    }
}
