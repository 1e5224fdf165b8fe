import LocalAPI
import SyncCore
import Testing

@Suite("Progress of a record by its form")
struct ProgressAnswerTests {
    private static let form: JSON = [
        "title": "Fire doors",
        "sections": [
            [
                "id": "doors", "title": "Doors",
                "fields": [
                    ["id": "q1", "type": "choice", "choices": ["pass", "fail"], "required": true],
                    ["id": "q2", "label": "What is wrong?", "type": "text", "required": true, "visible_when": ["q1": "fail"]],
                ],
            ],
            ["id": "rooms", "visible_when": ["q1": "pass"], "fields": [["id": "grade", "type": "rating"]]],
        ],
    ]

    private static func progress(_ found: RecordProgress.Found) -> RecordProgress {
        var progress = RecordProgress(record: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-17")))
        progress.found = found
        return progress
    }

    private static func answer(_ progress: RecordProgress) throws -> ProgressAnswer {
        let answer = ProgressAnswer.answer(progress)
        #expect(answer.status == 200)
        return try #require(ProgressAnswer(try JSONReader.read(text(answer))))
    }

    @Test("The answer is read back as it was written")
    func judged() throws {
        let counted = try Form(Self.form).progress(of: ["q1": "fail"])
        var progress = Self.progress(.judged(FormSettings.Name(id: "doors", version: "3"), counted))
        progress.saysComplete = true
        let answer = try Self.answer(progress)
        #expect(answer.record == "audits/a-17" && answer.form == "doors, version 3" && answer.state == "judged")
        #expect(answer.count == counted.total && answer.percent == 50 && answer.saysComplete && !answer.isComplete)
        #expect(answer.sections.map(\.applies) == [true, false])
        #expect(answer.holes == [Problem.Pointer("/q2", "is required (What is wrong?)")] && answer.faults.isEmpty)
        #expect(
            ProgressScreen.render(answer) == [
                "audits/a-17 by the form doors, version 3, says that it is complete",
                "section  questions  answered  required  missing  done",
                "Doors            2         1         2        1  50 %",
                "rooms            -         -         -        -     -",
                "in all           2         1         2        1  50 %",
                "missing: /q2 is required (What is wrong?)",
            ])
    }

    @Test("A record that no form could judge says why")
    func unjudged() throws {
        #expect(ProgressScreen.render(try Self.answer(Self.progress(.unnamed))) == ["audits/a-17: the record names no form"])
        let absent = try Self.answer(
            Self.progress(.unjudged(FormSettings.Name(id: "doors"), .absent, reason: "the form doors is not on this device")))
        #expect(absent.state == "absent" && absent.form == "doors")
        #expect(ProgressScreen.render(absent) == ["audits/a-17: the form doors is not on this device"])
    }

    @Test("The answer to an enqueue says that no form judged it")
    func enqueued() throws {
        let key = MutationKey(trusted: "0199c3f3-2")
        var enqueued = Enqueued(
            key: key, seq: 1, state: .pending, record: nil,
            recordName: RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-17")), isRepeat: false, durability: .flash)
        #expect(!text(EnqueueAnswer.answer(enqueued)).contains("form"))
        enqueued.form = .absent
        let answer = EnqueueAnswer(try JSONReader.read(text(EnqueueAnswer.answer(enqueued))))
        #expect(answer?.form == .absent)
    }
}

private func text(_ answer: LocalAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }
