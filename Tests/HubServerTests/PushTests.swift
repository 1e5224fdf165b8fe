import HubServer
import SyncCore
import Testing

@Suite("Push")
struct PushTests {
    @Test("A create is accepted, gets a commit number, and is in the feed")
    func create() throws {
        let bench = try HubBench()
        let verdict = try bench.verdict(Sent("k-1", .create, data: ["status": "open"]))
        #expect(verdict == .accepted(version: 1, serverID: nil, record: nil, merged: []))
        #expect(try bench.data("audits", "a-1") == ["status": "open"])
        #expect(bench.hub.head == 1)
    }
}
