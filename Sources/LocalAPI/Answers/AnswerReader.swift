import SyncCore

/// Reads answers of the agent on the client's side. A missing or odd member becomes `nil` or empty, because a newer or older agent may send
/// more or less; only members that the caller needs are required.
struct AnswerReader {
    let object: JSONObject

    init(_ json: JSON?) {
        object = json?.object ?? [:]
    }

    func text(_ name: String) -> String? { object[name]?.text }
    func int(_ name: String) -> Int64? { object[name]?.int }
    func bool(_ name: String) -> Bool? { object[name]?.bool }
    func time(_ name: String) -> Timestamp? { object[name]?.text.flatMap { RFC3339.timestamp($0) } }
    func inside(_ name: String) -> AnswerReader { AnswerReader(object[name]) }
    func list(_ name: String) -> [JSON] { object[name]?.array ?? [] }
    func texts(_ name: String) -> [String] { list(name).compactMap(\.text) }
    func has(_ name: String) -> Bool { object[name].map { !$0.isNull } ?? false }

    /// A list of `{"pointer": …, "detail": …}`.
    func pointers(_ name: String) -> [Problem.Pointer] {
        list(name).map { Problem.Pointer($0.object?["pointer"]?.text ?? "", $0.object?["detail"]?.text ?? "") }
    }

    /// JSON text of a member; `nil` when it is absent or null.
    func source(_ name: String) -> String? {
        object[name].flatMap { $0.isNull ? nil : $0.json }
    }
}

extension JSONWriter {
    /// Writes a time, or null for "never".
    mutating func time(_ name: StaticString, _ time: Timestamp?) {
        self.name(name)
        if let time { string(time.description) } else { null() }
    }

    /// Writes stored JSON text, or null.
    mutating func stored(_ name: StaticString, _ text: String?) {
        self.name(name)
        if let text { raw(text) } else { null() }
    }

    mutating func members(_ name: StaticString, _ body: (inout JSONWriter) -> Void) {
        self.name(name)
        object(body)
    }

    mutating func elements<Element>(
        _ name: StaticString, _ list: some Sequence<Element>, _ write: (inout JSONWriter, Element) -> Void
    ) {
        self.name(name)
        array { writer in for element in list { write(&writer, element) } }
    }
}
