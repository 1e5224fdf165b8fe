extension Request {
    /// The field `Schema: audits=1, sites=2`, in which an app says in which versions of schemas it writes and reads; none for no entity.
    ///
    /// - Throws: `invalidArgument` for what the agent could not read.
    static func fields(schemas: [String: Int]) throws(EdgeSyncError) -> [(name: String, value: String)] {
        guard schemas.count <= Limits.schemas else {
            throw .invalidArgument("one client names versions of at most \(Limits.schemas) entities, and not of \(schemas.count)")
        }
        for (entity, version) in schemas {
            guard isIdentifier(entity) else {
                throw .invalidArgument(
                    "\"\(entity)\" cannot be the name of an entity: expected 1 to 64 of the characters A-Z a-z 0-9 . _ : -")
            }
            guard Limits.schemaVersions.contains(version) else {
                let (least, most) = (Limits.schemaVersions.lowerBound, Limits.schemaVersions.upperBound)
                throw .invalidArgument("the version of the schema of \(entity) is \(version), expected \(least) to \(most)")
            }
        }
        if schemas.isEmpty { return [] }
        // The names are ASCII by now, so the order of texts is that of their bytes.
        return [("Schema", schemas.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: ", "))]
    }

    private static func isIdentifier(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "._:-".utf8.contains(byte)
                }
            }
    }
}
