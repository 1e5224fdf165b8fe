/// The header `Schema: audits=2, sites=3`: the version of each entity's schema in which a client writes and reads, and in an answer the
/// present one. An entity that is not named has version 1.
package struct SchemaNumbers: Hashable, Sendable {
    /// The versions that the header names; version 1 may be among them.
    package private(set) var named: [EntityName: Int]
    /// The header could not be read: no version may be assumed.
    package private(set) var isReadable = true

    package static let expected = "entities with the number of a version, such as Schema: audits=2, sites=3"

    /// Version 1 is left out.
    package init(_ named: [EntityName: Int] = [:]) {
        self.named = named.filter { $1 != 1 }
    }

    /// The present versions of the entities.
    package init(_ rules: RuleBook) {
        self.init(rules.entities.mapValues(\.version))
    }

    /// The versions after rules are taken over: an entity whose rules say nothing of versions keeps its own.
    package func taking(_ rules: RuleBook) -> SchemaNumbers {
        SchemaNumbers(named.merging(rules.entities.compactMapValues { $0.versions?.present }, uniquingKeysWith: { $1 }))
    }

    package init(reading headers: HTTPHeaders) {
        self.init(reading: headers[HubHeader.schema])
    }

    /// - Parameter text: The value of the header; `nil`: it was not sent.
    package init(reading text: String?) {
        self.init()
        guard let text else { return }
        for part in text.split(separator: ",") {
            let pair = part.filter { $0 != " " }.split(separator: "=", omittingEmptySubsequences: false)
            guard pair.count == 2, let entity = EntityName(String(pair[0])), let version = Int(pair[1]),
                SchemaVersions.range.contains(version),
                named[entity] == nil || named[entity] == version
            else {
                (named, isReadable) = ([:], false)
                return
            }
            named[entity] = version
        }
    }

    package subscript(entity: EntityName) -> Int { named[entity] ?? 1 }

    /// The value of the header; `nil`: every entity has version 1.
    package var text: String? {
        let told = named.filter { $1 != 1 }
        if told.isEmpty { return nil }
        return told.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: ", ")
    }
}
