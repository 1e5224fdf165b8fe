import LocalAPI
import SyncCore

/// Shows an event as one line: time, type, record or owner, and details.
enum EventLine {
    static func text(_ event: LocalEvent, at time: Timestamp) -> String {
        let clock = PlainText.clock(time, now: time, offset: Environment.offset(at: time))
        // An event without readable members shows only its type; `watch --json` shows its data as text.
        let object = (try? JSONReader.read(event.data, limits: .answer))?.object ?? [:]
        var parts = [clock, event.type]
        if let entity = object["entity"]?.text {
            parts.append(entity + "/" + (object["record_id"]?.text ?? object["id"]?.text ?? ""))
        }
        for member in object.members where !["entity", "record_id", "seq"].contains(member.name.text) {
            let name = member.name.text
            // The name of a record contains its id already.
            if name == "id", event.type == EventType.record.rawValue { continue }
            parts.append(name + "=" + (member.value.text ?? member.value.json))
        }
        return PlainText.safe(parts.joined(separator: " "))
    }
}
