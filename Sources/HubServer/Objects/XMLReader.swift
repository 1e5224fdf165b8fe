/// One element of a document: its name without a prefix, its text, its children in order.
package struct XMLElement: Equatable, Sendable {
    package var name: String
    package var text = ""
    package var children: [XMLElement] = []

    package func all(_ name: String) -> [XMLElement] { children.filter { $0.name == name } }
    /// The text of a child.
    package subscript(name: String) -> String? { children.first { $0.name == name }?.text }
}

/// Reads the XML of object stores' answers, a small part of https://www.w3.org/TR/xml: elements, text, the five entities, character
/// references, CDATA. Attributes, comments and processing instructions are skipped. Document types are rejected, so nothing can be declared
/// and nothing expands.
package struct XMLReader {
    package static let depthMax = 16
    static let elementsMax = 100_000

    private let bytes: [UInt8]
    private var place = 0
    private var elements = 0

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// - Returns: The root; `nil` for any other or incomplete document.
    package static func read(_ bytes: [UInt8]) -> XMLElement? {
        var reader = XMLReader(bytes)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.place = 3 }
        guard reader.skipMisc(), let root = reader.element(depth: 0), reader.skipMisc(), reader.place == bytes.count else { return nil }
        return root
    }

    // MARK: Elements

    private mutating func element(depth: Int) -> XMLElement? {
        elements += 1
        guard depth < Self.depthMax, elements <= Self.elementsMax, consume("<"), let name = name() else { return nil }
        guard let isEmpty = restOfTag() else { return nil }
        var element = XMLElement(name: local(name))
        if isEmpty { return element }
        var text: [UInt8] = []
        while place < bytes.count {
            if consume("</") {
                guard self.name() == name else { return nil }
                skipSpace()
                guard consume(">"), let whole = String(validating: text, as: UTF8.self) else { return nil }
                element.text = whole
                return element
            }
            if consume("<![CDATA[") {
                guard let end = find("]]>") else { return nil }
                text += bytes[place..<end]
                place = end + 3
            } else if isAt("<!--") || isAt("<?") {
                guard skipOne() else { return nil }
            } else if isAt("<") {
                guard let child = self.element(depth: depth + 1) else { return nil }
                element.children.append(child)
            } else if consume("&") {
                guard let character = entity() else { return nil }
                text += Array(String(character).utf8)
            } else {
                text.append(bytes[place])
                place += 1
            }
        }
        return nil
    }

    /// Attributes, up to the end of the tag.
    ///
    /// - Returns: `true` when the element has no content; `nil` for a malformed tag.
    private mutating func restOfTag() -> Bool? {
        while true {
            skipSpace()
            if consume("/>") { return true }
            if consume(">") { return false }
            guard name() != nil else { return nil }
            skipSpace()
            guard consume("=") else { return nil }
            skipSpace()
            guard place < bytes.count, bytes[place] == UInt8(ascii: "\"") || bytes[place] == UInt8(ascii: "'") else { return nil }
            let quote = bytes[place]
            guard let end = bytes[(place + 1)...].firstIndex(of: quote) else { return nil }
            place = end + 1
        }
    }

    private mutating func name() -> [UInt8]? {
        let start = place
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: ":"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."), 0x80...:
                place += 1
            default: return place > start ? Array(bytes[start..<place]) : nil
            }
        }
        return nil
    }

    private func local(_ name: [UInt8]) -> String {
        String(decoding: name.lastIndex(of: UInt8(ascii: ":")).map { name[($0 + 1)...] } ?? name[...], as: UTF8.self)
    }

    /// Reads an entity after its `&`.
    private mutating func entity() -> Character? {
        guard let end = bytes[place...].prefix(12).firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let name = String(decoding: bytes[place..<end], as: UTF8.self)
        place = end + 1
        switch name {
        case "amp": return "&"
        case "lt": return "<"
        case "gt": return ">"
        case "quot": return "\""
        case "apos": return "'"
        default:
            guard name.hasPrefix("#") else { return nil }
            let digits = name.dropFirst()
            let number = digits.first == "x" ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
            return number.flatMap { $0 == 0 ? nil : Unicode.Scalar($0) }.map { Character($0) }
        }
    }

    // MARK: Between them

    private mutating func skipMisc() -> Bool {
        while true {
            skipSpace()
            guard isAt("<?") || isAt("<!--") else { return true }
            guard skipOne() else { return false }
        }
    }

    /// A comment or a processing instruction.
    private mutating func skipOne() -> Bool {
        let closing = isAt("<?") ? "?>" : "-->"
        guard let end = find(closing) else { return false }
        place = end + closing.utf8.count
        return true
    }

    private mutating func skipSpace() {
        while place < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[place]) { place += 1 }
    }

    private func isAt(_ text: String) -> Bool {
        bytes[place...].starts(with: text.utf8)
    }

    /// Moves behind the text if it comes next.
    private mutating func consume(_ text: String) -> Bool {
        guard isAt(text) else { return false }
        place += text.utf8.count
        return true
    }

    private func find(_ text: String) -> Int? {
        let wanted = Array(text.utf8)
        var at = place
        while at + wanted.count <= bytes.count {
            if bytes[at..<(at + wanted.count)].elementsEqual(wanted) { return at }
            at += 1
        }
        return nil
    }
}
