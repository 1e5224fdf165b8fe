package import SyncCore

/// Answer to `POST /v1/plan`: the traffic that would be sent, in order, and the traffic that would wait, with the reasons. A plan sends
/// nothing.
package struct PlanAnswer: Hashable, Sendable {
    /// Consecutive items of one class.
    package struct Send: Hashable, Sendable {
        /// Name of the ``TrafficClass``.
        package var traffic: String
        package var count: Int64
        package var bytes: Int64
        /// The first items in order; fewer than ``count`` when there are many.
        package var items: [Item]

        package init(traffic: String, count: Int64, bytes: Int64, items: [Item] = []) {
            self.traffic = traffic
            self.count = count
            self.bytes = bytes
            self.items = items
        }
    }

    package struct Item: Hashable, Sendable {
        package var id: String
        package var bytes: Int64

        package init(id: String, bytes: Int64) {
            self.id = id
            self.bytes = bytes
        }
    }

    /// Items that wait for the same reason.
    package struct Wait: Hashable, Sendable {
        package var traffic: String
        package var count: Int64
        package var bytes: Int64
        /// One of the fixed reason codes of the policy.
        package var reason: String
        package var until: Timestamp?
        package var sentence: String
        /// Code of the cause, as ``PresentCause/code``.
        package var cause: String?
        /// The next action, as a command with real values.
        package var command: String?

        package init(
            traffic: String, count: Int64, bytes: Int64, reason: String, until: Timestamp? = nil, sentence: String,
            cause: String? = nil, command: String? = nil
        ) {
            self.traffic = traffic
            self.count = count
            self.bytes = bytes
            self.reason = reason
            self.until = until
            self.sentence = sentence
            self.cause = cause
            self.command = command
        }
    }

    package private(set) var sends: [Send]
    package private(set) var waits: [Wait]
    package var situation: SituationNote
    /// Size of everything that would be sent, bytes.
    package private(set) var bytes: Int64

    /// Largest number of items in an answer, over all classes: enough to see the order, while a full outbox has 100,000.
    package static let itemsMax = 200
    /// Largest number of different reasons in an answer. Reasons are few, but each item may have an end of its own.
    package static let waitsMax = 100

    package init(situation: SituationNote) {
        self.init(situation: situation, sends: [], waits: [], bytes: 0)
    }

    package init(_ plan: Plan, at place: HubPlace, situation: SituationNote) {
        self.init(situation: situation)
        for step in plan.steps { send(step.item.traffic.name, id: step.item.id, bytes: Int64(step.bytes)) }
        for waiting in plan.waits {
            let present = waiting.explanation.flatMap { PresentCause($0, at: place) }
            wait(
                Wait(
                    traffic: waiting.item.traffic.name, count: 1, bytes: Int64(waiting.bytes),
                    reason: waiting.reason.reason.rawValue, until: present == nil ? waiting.reason.until : present?.until,
                    sentence: waiting.sentence, cause: present?.code, command: present?.command))
        }
    }

    private init(situation: SituationNote, sends: [Send], waits: [Wait], bytes: Int64) {
        self.situation = situation
        self.sends = sends
        self.waits = waits
        self.bytes = bytes
    }

    // MARK: Built item by item, in the order of the plan

    package mutating func send(_ traffic: String, id: String, bytes: Int64) {
        self.bytes = self.bytes.saturatingAdd(bytes)
        let named = sends.reduce(0) { $0 + $1.items.count }
        let item = named < PlanAnswer.itemsMax ? [Item(id: id, bytes: bytes)] : []
        if let last = sends.indices.last, sends[last].traffic == traffic {
            sends[last].count += 1
            sends[last].bytes = sends[last].bytes.saturatingAdd(bytes)
            sends[last].items += item
        } else {
            sends.append(Send(traffic: traffic, count: 1, bytes: bytes, items: item))
        }
    }

    /// Combines items that wait for the same reason until the same time, with the sentence of the first one. Beyond ``waitsMax`` the end is
    /// no longer distinguished.
    package mutating func wait(_ wait: Wait) {
        let isFull = waits.count >= PlanAnswer.waitsMax
        let same = waits.lastIndex {
            $0.traffic == wait.traffic && $0.reason == wait.reason && (isFull || $0.until == wait.until)
        }
        guard let same else { return waits.append(wait) }
        waits[same].count = waits[same].count.saturatingAdd(wait.count)
        waits[same].bytes = waits[same].bytes.saturatingAdd(wait.bytes)
    }

    // MARK: JSON

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("would_send", sends) { writer, send in
                    writer.object { writer in
                        writer.member("class", send.traffic)
                        writer.member("count", send.count)
                        writer.member("bytes", send.bytes)
                        writer.elements("items", send.items) { writer, item in
                            writer.object { writer in
                                writer.member("id", item.id)
                                writer.member("bytes", item.bytes)
                            }
                        }
                    }
                }
                writer.elements("would_defer", waits) { writer, wait in
                    writer.object { writer in
                        writer.member("class", wait.traffic)
                        writer.member("count", wait.count)
                        writer.member("bytes", wait.bytes)
                        writer.member("reason", wait.reason)
                        writer.time("until", wait.until)
                        writer.member("sentence", wait.sentence)
                        if let cause = wait.cause { writer.member("cause", cause) }
                        if let command = wait.command { writer.member("command", command) }
                    }
                }
                writer.name("situation")
                situation.write(to: &writer)
                writer.member("bytes_total", bytes)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["would_send"]?.array != nil, reader.object["would_defer"]?.array != nil else { return nil }
        sends = reader.list("would_send").map { element in
            let send = AnswerReader(element)
            return Send(
                traffic: send.text("class") ?? "unknown", count: send.int("count") ?? 0, bytes: send.int("bytes") ?? 0,
                items: send.list("items").compactMap { element in
                    let item = AnswerReader(element)
                    return item.text("id").map { Item(id: $0, bytes: item.int("bytes") ?? 0) }
                })
        }
        waits = reader.list("would_defer").map { element in
            let wait = AnswerReader(element)
            return Wait(
                traffic: wait.text("class") ?? "unknown", count: wait.int("count") ?? 0, bytes: wait.int("bytes") ?? 0,
                reason: wait.text("reason") ?? "unknown", until: wait.time("until"),
                sentence: wait.text("sentence") ?? "", cause: wait.text("cause"), command: wait.text("command"))
        }
        situation = SituationNote(reader.inside("situation"))
        bytes = reader.int("bytes_total") ?? 0
    }
}
