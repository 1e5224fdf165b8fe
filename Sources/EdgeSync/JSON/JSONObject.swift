/// The members of a JSON object, in the order in which they were written or read.
///
/// The order has no meaning for equality. It makes the bytes of a repeated request the same.
public struct JSONObject: Sendable {
    public typealias Member = (name: String, value: JSONValue)

    private(set) var members: [Member] = []
    /// Places of the members by name, for objects that are too large to be searched.
    private var places: [ExactName: Int]?

    /// Up to this number of members a search is faster than a dictionary.
    private static let searched = 16

    public init() {}

    /// - Parameter members: Their names must differ.
    init(unique members: [(String, JSONValue)]) {
        for (name, value) in members {
            let isNew = append(name, value)
            precondition(isNew, "the member \(name) is there twice")
        }
    }

    /// The member of that name. Assigning `nil` removes it; assigning `.null` sets it to the null of JSON.
    public subscript(name: String) -> JSONValue? {
        get { place(of: name).map { members[$0].value } }
        set {
            switch (place(of: name), newValue) {
            case (let place?, let value?):
                members[place].value = value
            case (let place?, nil):
                members.remove(at: place)
                index()
            case (nil, let value?):
                _ = append(name, value)
            case (nil, nil):
                break
            }
        }
    }

    public var names: [String] { members.map(\.name) }

    /// Adds a member at the end.
    ///
    /// - Returns: `false` if there is one of that name already; nothing changed then.
    mutating func append(_ name: String, _ value: JSONValue) -> Bool {
        if place(of: name) != nil { return false }
        members.append((name, value))
        if places != nil { places?[ExactName(name)] = members.count - 1 } else { index() }
        return true
    }

    private func place(of name: String) -> Int? {
        if let places { return places[ExactName(name)] }
        return members.firstIndex { $0.name.utf8.elementsEqual(name.utf8) }
    }

    private mutating func index() {
        places = nil
        guard members.count > Self.searched else { return }
        var fresh: [ExactName: Int] = [:]
        for (place, member) in members.enumerated() { fresh[ExactName(member.name)] = place }
        places = fresh
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// The names of a literal must differ.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self.init(unique: elements) }
}

extension JSONObject: RandomAccessCollection {
    public var startIndex: Int { members.startIndex }
    public var endIndex: Int { members.endIndex }
    public subscript(position: Int) -> Member { members[position] }
}

extension JSONObject: Equatable {
    public static func == (one: JSONObject, other: JSONObject) -> Bool {
        one.count == other.count && one.members.allSatisfy { other[$0.name] == $0.value }
    }
}

extension JSONObject: CustomStringConvertible {
    /// The object as JSON without white space.
    public var description: String { JSONValue.object(self).description }
}

/// A name by its bytes. Two names that differ in their normal form are two members for JSON, and one `String` for Swift.
private struct ExactName: Hashable {
    let name: String

    init(_ name: String) {
        self.name = name
    }

    static func == (one: ExactName, other: ExactName) -> Bool { one.name.utf8.elementsEqual(other.name.utf8) }

    func hash(into hasher: inout Hasher) {
        for byte in name.utf8 { hasher.combine(byte) }
    }
}
