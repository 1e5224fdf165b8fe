import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    @Suite("Bad hubs")
    struct BadHubTests {
        /// One way to answer nonsense.
        struct Case: Sendable, CustomTestStringConvertible {
            var name: String
            /// Only answers to this path are changed; `nil` means all.
            var path: String?
            /// A word that status must use about it.
            var word: String?
            var change: @Sendable (inout TamperingRelay.Answer) -> Void

            var testDescription: String { name }
        }

        private static let pull = "/v1/sync/pull", push = "/v1/sync/push"

        static let cases: [Case] = [
            Case(name: "HTML with 200", path: nil, word: "Sync-Version") { answer in
                answer = TamperingRelay.Answer(
                    headers: [("Content-Type", "text/html")], body: Array("<html>Please log in</html>".utf8))
            },
            Case(name: "no Sync-Version", path: nil, word: "Sync-Version") { $0["Sync-Version"] = nil },
            Case(name: "another Sync-Version", path: nil, word: "version") { $0["Sync-Version"] = "9" },
            Case(name: "JSON called text", path: nil, word: "JSON") { $0["Content-Type"] = "text/plain" },
            Case(name: "a redirect", path: nil, word: "redirect") { answer in
                answer.status = 302
                answer["Location"] = "http://127.0.0.1:1/login"
            },
            Case(name: "empty 200", path: push, word: nil) { $0.body = [] },
            Case(name: "pulled JSON cut in the middle", path: pull, word: nil) {
                $0.body.removeLast($0.body.count / 2)
            },
            Case(name: "pushed JSON cut in the middle", path: push, word: nil) {
                $0.body.removeLast($0.body.count / 2)
            },
            Case(name: "connection cut in the body", path: push, word: nil) { $0.missing = 1_000 },
            Case(name: "endless body", path: pull, word: nil) { answer in
                answer.isEndless = true
                answer.body = Array(repeating: UInt8(ascii: " "), count: 1 << 20)
            },
            Case(name: "gzip bomb", path: pull, word: nil) { answer in
                answer["Content-Encoding"] = "gzip"
                answer.body = bomb
            },
            Case(name: "wrong types", path: push, word: "results") {
                $0.body = Array(#"{"head":1,"results":{}}"#.utf8)
            },
            Case(name: "wrong types in a page", path: pull, word: nil) { answer in
                answer.body = Array(#"{"epoch":"e","head":"many","streams":7}"#.utf8)
            },
            Case(name: "missing results", path: push, word: nil) { $0.body = Array(#"{"head":1,"results":[]}"#.utf8) },
            Case(name: "results for unknown keys", path: push, word: nil) { answer in
                answer.body = Array(
                    #"{"head":1,"results":[{"idempotency_key":"someone-elses","status":"accepted","version":1}]}"#.utf8)
            },
            Case(name: "a key twice", path: push, word: "once") { answer in
                let result = #"{"idempotency_key":"twice","status":"accepted","version":1}"#
                answer.body = Array(#"{"head":1,"results":[\#(result),\#(result)]}"#.utf8)
            },
        ]

        /// 64 MB of blanks in 64 KB.
        private static let bomb = ZlibCompressor().gzip([UInt8](repeating: UInt8(ascii: " "), count: 64 << 20)) ?? []

        @Test(
            "Nonsense from the hub changes nothing, is named in status, and does no harm once it stops",
            arguments: cases)
        func nonsense(_ example: Case) async throws {
            try await Stand.with(agent: false) { stand in
                let relay = try TamperingRelay(hubPort: await stand.hubPort)
                await stand.placeBetween("http://127.0.0.1:\(relay.port)")
                try await stand.startAgent()
                _ = try await stand.settle()

                relay.use { path, answer in
                    guard example.path == nil || example.path == path else { return answer }
                    var answer = answer
                    example.change(&answer)
                    return answer
                }
                // One change on each side, so that both directions have something to get wrong.
                let other = try await PlainPeer("other", on: stand)
                try await other.create("work_orders", "theirs", #"{"from":"other"}"#, at: await stand.hubURL)
                let ours = NewMutation(
                    .create, EntityName(trusted: "work_orders"), RecordID(trusted: "ours"), data: ["from": "stand"])
                let key = try await stand.client.enqueue(ours).value.id
                #expect(try await stand.sync() != "ok")

                let status = try await stand.client.status().value
                #expect(status.outbox.enqueued == 1)
                // A change may reach the hub before the pull, and then a spoiled pull does not stop it.
                let hasGone = example.path == Self.pull && status.outbox.count(.done) == 1
                #expect(hasGone || status.outbox.count(.pending) + status.outbox.count(.inFlight) == 1)
                #expect(status.outbox.isBalanced)
                #expect(status.overall.level != .ok)
                if let error = status.sync.lastError {
                    if let word = example.word { #expect(error.contains(word), "status says: \(error)") }
                } else {
                    // A probe may meet the answer first. Then no cycle begins, and the state of the network says why.
                    #expect(status.connectivity.state == "captive", "status says: \(status.connectivity)")
                }
                let mirrored = try await stand.client.record(RecordName(ours.entity, RecordID(trusted: "ours"))).value
                #expect(hasGone || mirrored.version == 0)
                #expect(mirrored.data == #"{"from":"stand"}"#)

                relay.use(nil)
                let settled = try await stand.settle()
                #expect(settled.outbox.count(.done) == 1)
                // When the change had gone before, the settling cycle may still meet a state that the bad answer has left.
                for _ in 0..<50 { if try await stand.sync() == "ok" { break } }
                #expect(try await stand.client.mutation(key).value.state == "done")
                // Ours and the other device's: whatever the agent had to ask again took effect once.
                #expect(try await stand.hubApplied() == 2)
                let theirs = try await stand.client.record(RecordName(ours.entity, RecordID(trusted: "theirs"))).value
                #expect(theirs.data == #"{"from":"other"}"#)
                #expect(settled.outbox.open == 0)
            }
        }
    }
}
