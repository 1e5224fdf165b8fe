import Foundation
import Glibc
import SyncLinux
import Testing

@Suite("The journal")
struct JournalTests {
    @Test("A message and what it is about arrive as fields")
    func fields() async throws {
        try await withTemporaryDirectory { directory in
            let reader = try DatagramSocket(directory + "/journal")
            let journal = Journal(identifier: "agentd", socket: directory + "/journal")
            let outcome = journal.send(
                priority: 5, message: "link up", fields: [("link", "wwan0"), ("cost-class", "metered"), ("n", "")])
            #expect(outcome == .sent)
            #expect(
                reader.receive()
                    == "MESSAGE=link up\nPRIORITY=5\nSYSLOG_IDENTIFIER=agentd\nAGENTD_LINK=wwan0\nAGENTD_COST_CLASS=metered\nAGENTD_N=\n")
        }
    }

    @Test("A line break in a value begins no field")
    func injection() async throws {
        try await withTemporaryDirectory { directory in
            let reader = try DatagramSocket(directory + "/journal")
            let journal = Journal(identifier: "agentd", socket: directory + "/journal")
            #expect(journal.send(priority: 6, message: "a\n_UID=0", fields: []) == .sent)
            #expect(reader.receive() == "MESSAGE\n\u{8}\0\0\0\0\0\0\0a\n_UID=0\nPRIORITY=6\nSYSLOG_IDENTIFIER=agentd\n")
        }
    }

    @Test("Without a listener, or a reader, nothing waits")
    func unheard() async throws {
        try await withTemporaryDirectory { directory in
            #expect(Journal(identifier: "agentd", socket: directory + "/none").send(priority: 6, message: "a", fields: []) == .isGone)
            let reader = try DatagramSocket(directory + "/journal")
            let journal = Journal(identifier: "agentd", socket: directory + "/journal")
            var outcomes: Set<Journal.Outcome> = []
            for _ in 0..<10_000 where !outcomes.contains(.isFull) {
                outcomes.insert(journal.send(priority: 6, message: String(repeating: "x", count: 1_000), fields: []))
            }
            #expect(outcomes == [.sent, .isFull])
            _ = reader
        }
    }

    @Test("Only a standard error that the journal reads is its own")
    func ownership() throws {
        var facts = stat()
        try #require(fstat(STDERR_FILENO, &facts) == 0)
        #expect(Journal.ofStandardError(identifier: "agentd", stream: "\(facts.st_dev):\(facts.st_ino)") != nil)
        for stream in [nil, "", "1:2", "\(facts.st_dev)", "\(facts.st_dev):\(facts.st_ino)0"] {
            #expect(Journal.ofStandardError(identifier: "agentd", stream: stream) == nil)
        }
    }
}
