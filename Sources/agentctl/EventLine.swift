import LocalAPI
import SyncCore

/// An event as one line: when it was seen, what kind, whose, and what happened.
enum EventLine {
    static func text(_ event: LocalEvent, at time: Timestamp) -> String {
        let clock = PlainText.clock(time, now: time, offset: Environment.offset(at: time))
        // An event without readable members is shown by its type alone; `watch --json` shows its data as text.
        let object = (try? JSONReader.read(event.data, limits: .answer))?.object ?? [:]
        var parts = [clock, event.type]
        if let entity = object["entity"]?.text {
            parts.append(entity + "/" + (object["record_id"]?.text ?? object["id"]?.text ?? ""))
        }
        for member in object.members where !["entity", "record_id", "seq"].contains(member.name.text) {
            let name = member.name.text
            // The id of a record stands in its name already.
            if name == "id", event.type == EventType.record.rawValue { continue }
            parts.append(name + "=" + (member.value.text ?? member.value.json))
        }
        return PlainText.safe(parts.joined(separator: " "))
    }
}
