import SyncCore
import SyncHTTP
import Testing

/// A form from its publication at the hub to the progress of a record, over the socket.
@Suite("Forms over the socket")
struct FormTests {
    private static let settings = """
        entities:
          forms: { kind: reference }
          audits: { form: { entity: forms, ref: form_id, version: form_version }, complete: { when: { status: [completed] } } }
        """

    private static let form: JSONObject = [
        "schema": [
            "title": "Doors",
            "sections": [
                [
                    "id": "doors",
                    "fields": [
                        ["id": "q1", "type": "choice", "choices": ["pass", "fail"], "required": true],
                        ["id": "q2", "label": "Why?", "type": "text", "required": true, "visible_when": ["q1": "fail"]],
                    ],
                ]
            ],
        ]
    ]

    private static func upsert(_ data: String) -> String {
        #"{"entity":"audits","record_id":"a-1","action":"upsert","data":\#(data)}"#
    }

    @Test("A draft is taken, completed with holes is refused, and progress tells what is missing")
    func life() async throws {
        let stand = try await AgentStand.start(Self.settings)
        let draft = Self.upsert(#"{"form_id":"doors","form_version":1,"q1":"fail"}"#)
        #expect(try await stand.send(.post, "/v1/mutations", draft)["form"] == "absent")
        let before = try await stand.send(.get, "/v1/records/audits/a-1/progress")
        #expect(before.status == 200 && before["form"]?.object?["state"] == "absent", "\(before.text)")

        try stand.hub.publish("forms", "doors:1", Self.form)
        #expect(try await stand.sync()["result"] == "ok")
        let refused = try await stand.send(.post, "/v1/mutations", Self.upsert(#"{"status":"completed"}"#))
        #expect(refused.status == 422 && refused.code == "validation", "\(refused.text)")
        #expect(refused["errors"] == [["pointer": "/data/q2", "detail": "is required (Why?)"]])
        let progress = try await stand.send(.get, "/v1/records/audits/a-1/progress")
        #expect(progress["missing"] == 1 && progress["percent"] == 50 && progress["complete"] == false, "\(progress.text)")
        #expect(progress["holes"] == [["pointer": "/q2", "detail": "is required (Why?)"]])

        let filled = try await stand.send(.post, "/v1/mutations", Self.upsert(#"{"status":"completed","q2":"hinge"}"#))
        #expect(filled.status == 201 && filled["form"] == nil, "\(filled.text)")
        let complete = try await stand.send(.get, "/v1/records/audits/a-1/progress")
        #expect(complete["percent"] == 100 && complete["says_complete"] == true, "\(complete.text)")
        #expect(try await stand.send(.get, "/v1/records/audits/none/progress").status == 404)
        try await stand.stop()
    }
}
