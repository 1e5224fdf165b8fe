package import SyncCore

/// Collects all faults of one body, so that its author sees them at once.
struct BodyFaults {
    /// The code of the answer: an unknown form takes precedence over a refused value.
    private(set) var code: LocalProblem?
    private var errors: [Problem.Pointer] = []

    /// Largest number of faults that are kept: a body can be wrong in a million places.
    private static let errorsMax = 20

    init() {}

    /// Records a wrong type: 400 `malformed`.
    mutating func wrong(_ pointer: String, _ expected: String, _ found: JSON?) {
        add(.malformed, pointer, "must be \(expected), not \(found?.kind ?? "missing")")
    }

    /// Records a malformed value of the right type: 400 `malformed`.
    mutating func malformed(_ pointer: String, _ rule: String) {
        add(.malformed, pointer, rule)
    }

    mutating func missing(_ pointer: String, _ expected: String) {
        add(.malformed, pointer, "is missing; it must be \(expected)")
    }

    /// Records a value of the right type that is not allowed: 422 `validation`.
    mutating func refused(_ pointer: String, _ rule: String) {
        add(.validation, pointer, rule)
    }

    /// Records an unknown member: 400 `unknown-member`, with the one that was probably meant.
    mutating func unknown(_ name: String, in pointer: String, known: [String]) {
        let near = nearestName(to: name, among: known).map { "; did you mean \($0)?" } ?? ""
        add(.unknownMember, pointer + "/" + BodyFaults.escaped(name), "is not known here" + near)
    }

    // The place of a member comes in two parts, so that a right one costs no text.

    /// Reads a text; `nil` after its fault was recorded.
    mutating func text(_ value: JSON, at pointer: String, _ name: String) -> String? {
        if let text = value.text { return text }
        wrong("\(pointer)/\(name)", "a string", value)
        return nil
    }

    /// Reads a number; `nil` after its fault was recorded.
    mutating func integer(_ value: JSON, at pointer: String, _ name: String, in range: ClosedRange<Int64>) -> Int64? {
        guard let number = value.int else {
            wrong("\(pointer)/\(name)", "a whole number", value)
            return nil
        }
        if range.contains(number) { return number }
        refused("\(pointer)/\(name)", "must be from \(range.lowerBound) to \(range.upperBound)")
        return nil
    }

    /// - Throws: One problem with an `errors` entry for each fault, if there is any.
    func check() throws(Problem) {
        guard let code, let first = errors.first else { return }
        let more = errors.count > 1 ? ", and \(errors.count - 1) more" : ""
        let place = first.pointer.isEmpty ? "the body" : first.pointer
        throw code.problem(place + " " + first.detail + more, errors: errors)
    }

    private mutating func add(_ code: LocalProblem, _ pointer: String, _ detail: String) {
        if errors.count < BodyFaults.errorsMax { errors.append(Problem.Pointer(pointer, detail)) }
        switch (self.code, code) {
        case (nil, _), (.validation?, .malformed), (.validation?, .unknownMember), (.malformed?, .unknownMember):
            self.code = code
        default: break
        }
    }

    /// A member name inside a JSON pointer (RFC 6901, section 3), cut to a length that fits a log line.
    static func escaped(_ name: String) -> String {
        var result = ""
        for scalar in name.unicodeScalars.prefix(64) {
            switch scalar {
            case "~": result += "~0"
            case "/": result += "~1"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// The first step for every body: from bytes to JSON.
package enum BodyText {
    /// - Parameter name: The text for people: the body of a request, a line of a file, or an option.
    /// - Throws: 400 `malformed` with the byte `offset`.
    package static func json(_ bytes: [UInt8], named name: String = "the body") throws(Problem) -> JSON {
        do throws(JSONError) {
            return try JSONReader.read(bytes, limits: .message)
        } catch {
            throw LocalProblem.malformed.problem(
                "\(name) is not valid JSON at byte \(error.offset): expected \(error.expected)",
                members: ["offset": .int(error.offset)])
        }
    }

    /// Reads a body like ``json(_:)``; an absent body means `{}`.
    static func object(_ bytes: [UInt8]) throws(Problem) -> JSONObject {
        if bytes.isEmpty { return [:] }
        let json = try json(bytes)
        guard let object = json.object else {
            var faults = BodyFaults()
            faults.wrong("", "an object", json)
            try faults.check()
            return [:]
        }
        return object
    }
}

/// Reads the members of one small body by name, and refuses unknown ones.
struct BodyReader {
    let object: JSONObject
    let pointer: String
    var faults = BodyFaults()
    private var known: [String] = []

    init(_ object: JSONObject, at pointer: String = "") {
        self.object = object
        self.pointer = pointer
    }

    /// The member; `nil` when it is absent or null.
    mutating func value(_ name: String) -> JSON? {
        known.append(name)
        // A ternary with nil in a closure would not do: that literal would be the JSON value null.
        guard let value = object[name], !value.isNull else { return nil }
        return value
    }

    mutating func bool(_ name: String) -> Bool? {
        guard let value = value(name) else { return nil }
        guard let bool = value.bool else {
            faults.wrong("\(pointer)/\(name)", "a Boolean", value)
            return nil
        }
        return bool
    }

    mutating func text(_ name: String, bytesMax: Int) -> String? {
        guard let value = value(name), let text = faults.text(value, at: pointer, name) else { return nil }
        guard text.utf8.count <= bytesMax else {
            faults.refused("\(pointer)/\(name)", "must be at most \(bytesMax) bytes")
            return nil
        }
        return text
    }

    /// A list of texts; empty when it is absent.
    ///
    /// - Parameters:
    ///   - rule: The text about an element for which `parse` returns `nil`.
    mutating func texts<Element>(
        _ name: String, max: Int = .max, _ rule: String, _ parse: (String) -> Element?
    ) -> [Element] {
        guard let value = value(name) else { return [] }
        guard let array = value.array else {
            faults.wrong("\(pointer)/\(name)", "an array of strings", value)
            return []
        }
        if array.count > max { faults.refused("\(pointer)/\(name)", "must have at most \(max) elements") }
        var elements: [Element] = []
        for (index, json) in array.prefix(max).enumerated() {
            guard let text = json.text else {
                faults.wrong("\(pointer)/\(name)/\(index)", "a string", json)
                continue
            }
            if let element = parse(text) {
                elements.append(element)
            } else {
                faults.refused("\(pointer)/\(name)/\(index)", rule)
            }
        }
        return elements
    }

    mutating func word<Word: RawRepresentable & CaseIterable>(_ name: String, _: Word.Type) -> Word?
    where Word.RawValue == String {
        guard let text = text(name, bytesMax: .max) else { return nil }
        if let word = Word(rawValue: text) { return word }
        let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
        faults.refused("\(pointer)/\(name)", "must be one of " + words)
        return nil
    }

    mutating func time(_ name: String) -> Timestamp? {
        guard let text = text(name, bytesMax: .max) else { return nil }
        if let time = RFC3339.timestamp(text) { return time }
        faults.refused("\(pointer)/\(name)", "must be a time such as 2026-11-21T06:00:00Z")
        return nil
    }

    mutating func integer(_ name: String, in range: ClosedRange<Int64>) -> Int64? {
        value(name).flatMap { faults.integer($0, at: pointer, name, in: range) }
    }

    /// - Throws: All faults, unknown members included.
    mutating func finish() throws(Problem) {
        for member in object.members where !known.contains(where: { member.name.means($0) }) {
            faults.unknown(member.name.text, in: pointer, known: known)
        }
        try faults.check()
    }
}
