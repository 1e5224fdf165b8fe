/// The names of the entities that a hub has for a device (PROTOCOL A3). A device without a configured list requests them with each pull,
/// and so learns of an entity that another device began.
package enum EntityList {
    package static let capability = "entities"
    /// Value of the member `entities` of a pull.
    static let named = "named"
    /// Largest number of names that are read. An agent has room for 1,000 names.
    package static let most = 1_000

    static func write(_ names: [EntityName]?, to writer: inout JSONWriter) {
        guard let names else { return }
        writer.member("entities", JSON.list(names.map(\.text)))
    }

    static func read(_ json: JSON?, _ place: String) throws(ReplyError) -> [EntityName]? {
        guard let json, !json.isNull else { return nil }
        let list = try ReplyReader.list(json, place)
        var names: [EntityName] = []
        var seen: Set<EntityName> = []
        for (index, json) in list.prefix(most).enumerated() {
            guard let name = json.text.flatMap({ EntityName($0) }) else { throw ReplyError("\(place)/\(index)", "the name of an entity") }
            if seen.insert(name).inserted { names.append(name) }
        }
        return names
    }
}
