package import SyncCore

/// Answer to `GET /v1/audit`: decisions of people and apps, oldest first.
package struct AuditAnswer: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var number: Int64
        package var at: Timestamp
        package var uid: UInt32
        package var verb: String
        package var target: String
        /// Details as the text of a JSON object; `nil` when there are none.
        package var detail: String?

        package init(number: Int64, at: Timestamp, uid: UInt32, verb: String, target: String, detail: String? = nil) {
            self.number = number
            self.at = at
            self.uid = uid
            self.verb = verb
            self.target = target
            self.detail = detail
        }
    }

    package var items: [Item]
    /// The `after` of the next page; `nil` after the last one.
    package var next: Int64?

    package init(items: [Item], next: Int64? = nil) {
        self.items = items
        self.next = next
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { writer, item in
                    writer.object { writer in
                        writer.member("n", item.number)
                        writer.member("at", item.at.description)
                        writer.member("uid", Int64(item.uid))
                        writer.member("verb", item.verb)
                        writer.member("target", item.target)
                        if let detail = item.detail { writer.stored("json", detail) }
                    }
                }
                writer.member("next", next)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["items"]?.array != nil else { return nil }
        items = reader.list("items").compactMap { element in
            let item = AnswerReader(element)
            guard let number = item.int("n"), let verb = item.text("verb"), let at = item.time("at") else { return nil }
            return Item(
                number: number, at: at, uid: UInt32(clamping: item.int("uid") ?? 0), verb: verb,
                target: item.text("target") ?? "", detail: item.source("json"))
        }
        next = reader.int("next")
    }
}
