import LocalAPI
import SyncCore
import Testing

@Suite("Conflicts over the socket") struct ConflictAPITests {
    static let item = ConflictItem(
        id: ConflictID(number: 12), record: RecordName(EntityName(trusted: "audit_responses"), RecordID(trusted: "r-5")),
        mutation: "0199c3f3-2", kind: "field", state: "stale", openedAt: RFC3339.timestamp("2026-11-20T21:04:05Z"),
        remoteVersion: 90_207,
        fields: [
            .init(
                "value", base: "pass",
                local: .init("fail", author: "ines", device: "gw-17", at: RFC3339.timestamp("2026-11-20T21:04:05Z")),
                remote: .init("flagged", author: "tom", device: "gw-3", at: RFC3339.timestamp("2026-11-20T20:10:00Z"), version: 90_207))
        ],
        history: [
            ["at": "2026-11-20T21:04:05.000Z", "event": "opened", "remote_version": 90_200],
            ["at": "2026-11-20T21:09:00.000Z", "event": "remote_changed", "remote_version": 90_207],
        ])
    static let now = RFC3339.timestamp("2026-11-20T22:00:00Z") ?? Timestamp(milliseconds: 0)

    @Test("The client reads the agent's answer back unchanged, and keeps an absent value and null apart")
    func clientReadsTheConflictUnchanged() throws {
        var item = Self.item
        item.fields.append(.init("gone", base: nil, local: .init(nil), remote: .init(.null)))
        item.fields.append(.init("all", base: .null, local: .init(nil, isDeleted: true), remote: .init(["a": 1])))
        item.into = "0199c3f4-9"
        #expect(ConflictItem(try JSONReader.read(item.answer.body)) == item)
        let page = try #require(ConflictListPage(try JSONReader.read(ConflictItem.list([item], next: ConflictID(number: 12)).body)))
        #expect(page.items == [item] && page.next == "12")
    }

    @Test("One conflict on 80 columns: base, local and remote side by side, who, when, what came before and what to type")
    func screen() {
        #expect(
            ConflictScreen.render(Self.item, width: 80, now: Self.now).joined(separator: "\n") == """
                c-12  audit_responses/r-5  both sides changed it  stale, since 21:04:05Z
                value
                  BASE                      LOCAL                     REMOTE
                  pass                      fail                      flagged
                                            ines, gw-17, 21:04:05Z    tom, gw-3, 20:10:00Z
                  21:04:05Z  opened  version 90200
                  21:09:00Z  remote changed  version 90207
                -> agentctl conflicts resolve c-12 --local|--remote --expect 90207
                   or by field: --field value=local|remote  --value value=JSON
                """)
        #expect(
            ConflictScreen.list([Self.item], width: 80).joined(separator: "\n") == """
                CONFLICT  RECORD               FIELD  LOCAL  REMOTE   STATE
                c-12      audit_responses/r-5  value  fail   flagged  stale
                """)
        #expect(ConflictScreen.list([], width: 80) == ["no conflicts"])
        #expect(ConflictScreen.line(Self.item.fields[0]) == "value: local fail (ines) / remote flagged (tom)")
    }

    @Test("Long and hostile values stay in their columns", arguments: [20, 40, 80, 200])
    func narrow(_ width: Int) {
        var item = Self.item
        item.fields[0].local.value = .string(String(repeating: "x\u{1B}[2J 日本 ", count: 200))
        item.fields[0].remote.value = ["deep": [1, 2, ["a": "b"]]]
        item.fields[0].name = String(repeating: "n", count: 300)
        let lines =
            ConflictScreen.render(item, width: width, now: Self.now) + ConflictScreen.list([item], width: width)
            + ConflictScreen.field(item.fields[0], width: width, now: Self.now)
        for line in lines {
            #expect(PlainText.columns(line) <= width, "\(line)")
            #expect(!line.unicodeScalars.contains { $0.value < 32 })
        }
    }

    @Test("The disputed values are shown whole; a very long one shows how much is left out, and how to see it")
    func long() {
        let sentence = "The seal is worn on the left side, the bearing runs hot, and the guard has come loose in two of four places."
        var item = Self.item
        item.fields[0].local.value = .string(sentence)
        #expect(words(ConflictScreen.render(item, width: 80, now: Self.now)).isSuperset(of: words([sentence])))
        item.fields[0].local.value = .string((1...500).map { "word\($0)" }.joined(separator: "\n"))
        let lines = ConflictScreen.render(item, width: 80, now: Self.now)
        #expect(lines.contains("  … 440 lines more: agentctl conflicts show c-12 --field value"))
        #expect(lines.last == "   or by field: --field value=local|remote  --value value=JSON")
        let whole = ConflictScreen.field(item.fields[0], width: 80, now: Self.now)
        #expect(whole.count == 1 + 2 + 501 + 2 && whole.contains("  word500") && whole.contains("LOCAL  ines, gw-17, 21:04:05Z"))
        // With many fields each has less room, and the last lines are still in sight.
        item.fields = (0..<20).map {
            var field = item.fields[0]; field.name = "f\($0)"; return field
        }
        #expect(ConflictScreen.render(item, width: 80, now: Self.now).count < 20 * 12)
    }

    private func words(_ lines: [String]) -> Set<String> { Set(lines.flatMap { $0.split(separator: " ").map(String.init) }) }

    @Test("A decided conflict says by what, and offers nothing to type")
    func decided() {
        var item = Self.item
        item.state = "resolved"
        item.into = "0199c3f4-9"
        item.history?.append([
            "at": "2026-11-20T21:30:00.000Z", "event": "resolved", "uid": 1000, "choice": ["value": "local"], "comment": "on site",
        ])
        let lines = ConflictScreen.render(item, width: 80, now: Self.now)
        #expect(lines.contains("decided by mutation 0199c3f4-9"))
        #expect(lines.last == "  21:30:00Z  resolved  value: local  uid 1000  \"on site\"")
    }

    // MARK: Bodies

    @Test(
        "The agent reads the client's body back unchanged",
        arguments: [
            ConflictDecision(.all(.local)),
            ConflictDecision(.all(.remote), comment: "on site", author: "ines", expectedRemoteVersion: 90_207),
            ConflictDecision(.fields(["value": .local, "notes": .value("both"), "gone": .value(.null)])),
            ConflictDecision(.all(.remote), letsGoOfList: true),
        ])
    func bodies(_ decision: ConflictDecision) throws {
        #expect(try ResolveBody.read(ResolveBody.bytes(decision)) == decision)
    }

    struct Bad: Sendable {
        let text: String
        let code: String
        let pointer: String
    }

    @Test(
        "A decision that cannot be meant says where it is wrong",
        arguments: [
            Bad(text: "{}", code: "malformed", pointer: "/choice"),
            Bad(text: #"{"choice":"mine"}"#, code: "validation", pointer: "/choice"),
            Bad(text: #"{"choice":"local","fields":{"a":"local"}}"#, code: "validation", pointer: "/choice"),
            Bad(text: #"{"fields":{}}"#, code: "validation", pointer: "/fields"),
            Bad(text: #"{"fields":["a"]}"#, code: "malformed", pointer: "/fields"),
            Bad(text: #"{"fields":{"a/b":"mine"}}"#, code: "validation", pointer: "/fields/a~1b"),
            Bad(text: #"{"fields":{"a":7}}"#, code: "malformed", pointer: "/fields/a"),
            Bad(text: #"{"fields":{"a":{"value":1,"more":2}}}"#, code: "malformed", pointer: "/fields/a"),
            Bad(text: #"{"choice":"local","expect_remote_version":-1}"#, code: "validation", pointer: "/expect_remote_version"),
            Bad(text: #"{"choice":"local","whole":true}"#, code: "validation", pointer: "/whole"),
            Bad(text: #"{"fields":{"a":"remote"},"whole":true}"#, code: "validation", pointer: "/whole"),
            Bad(text: #"{"choice":"remote","whole":1}"#, code: "malformed", pointer: "/whole"),
            Bad(text: #"{"choise":"local"}"#, code: "unknown-member", pointer: "/choise"),
        ])
    func badBodies(_ bad: Bad) {
        do throws(Problem) {
            _ = try ResolveBody.read(Array(bad.text.utf8))
            Issue.record("\(bad.text) was taken")
        } catch {
            #expect(error.code == bad.code)
            #expect(error.errors.contains { $0.pointer == bad.pointer }, "\(error.errors)")
        }
    }

    @Test("The answer says what becomes of the atomic list; without one, and from an older agent, it says nothing of it")
    func listFate() throws {
        func answer(_ list: ResolveAnswer.List?) throws -> ResolveAnswer {
            let bytes = ResolveAnswer.answer(state: "resolved", mutation: nil, list: list).body
            return try #require(ResolveAnswer(try JSONReader.read(bytes)))
        }
        let waits = ResolveAnswer.List(goOn: 0, wait: 3, letGo: 1, waitsFor: ["c-13", "c-14"])
        #expect(try answer(waits).list == waits)
        #expect(waits.sentence == "its atomic list: 3 changes wait until c-13, c-14 are decided, 1 change was dropped")
        #expect(ResolveAnswer.List(goOn: 2, wait: 0, letGo: 0, waitsFor: []).sentence == "its atomic list: 2 changes go on together")
        #expect(
            ResolveAnswer.List(goOn: 1, wait: 0, letGo: 2, waitsFor: []).sentence
                == "its atomic list: 1 change goes on, 2 changes were dropped")
        #expect(
            ResolveAnswer.List(goOn: 0, wait: 1, letGo: 0, waitsFor: []).sentence
                == "its atomic list: 1 change waits until the others of the list may go")
        #expect(try answer(nil).list == nil)
    }

    @Test(
        "A conflict is named c- and a number, and nothing else",
        arguments: ["", "c-", "12", "c-x", "c--1", "c-1 ", "C-1", "c-99999999999999999999"])
    func names(_ text: String) {
        #expect(ConflictID(text) == nil)
        #expect(ConflictID("c-12")?.number == 12)
    }
}
