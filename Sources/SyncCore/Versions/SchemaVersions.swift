/// The versions of an entity's schema, from the oldest known one to the present one, with the steps between them (PROTOCOL D7).
///
/// A document of an entity without versions is of version 1.
package struct SchemaVersions: Hashable, Sendable {
    package struct Version: Hashable, Sendable {
        package var schema: DocumentSchema?
        /// The steps from the version before.
        package var up: SchemaSteps
        /// The steps to the version before, where the owner gives them; `nil`: they follow from ``up``.
        package var down: SchemaSteps?

        package init(schema: DocumentSchema? = nil, up: SchemaSteps = [], down: SchemaSteps? = nil) {
            self.schema = schema
            self.up = up
            self.down = down
        }
    }

    /// A mistake, with the keys on the way to its place.
    package struct Fault: Error, Hashable {
        package var path: [String]
        package var problem: String
        package var expected: String?

        package init(path: [String], problem: String, expected: String? = nil) {
            self.path = path
            self.problem = problem
            self.expected = expected
        }
    }

    /// The present version: the documents of the hub and of the mirror have it.
    package let present: Int
    /// All known versions; they follow one another.
    package let versions: [Int: Version]
    /// The versions in which changes are accepted and documents are shown, sorted.
    package let accepts: [Int]
    /// ``accepts`` is as the owner wrote it.
    package let acceptsAsGiven: [Int]?
    /// The way down from each version to the one before: for all that are accepted, and for the others where it follows or is given.
    /// Settings may go back to a version that is not accepted any more.
    private let downs: [Int: SchemaSteps]

    package static let range = 1...1_000_000
    /// Largest number of versions.
    package static let countMax = 1_000

    /// - Parameter accepts: `nil`: the present version and all older ones that documents can be shown in.
    package init(present: Int, versions: [Int: Version], accepts: [Int]?) throws(Fault) {
        self.present = present
        self.versions = versions
        acceptsAsGiven = accepts
        guard versions[present] != nil else {
            throw Fault(path: ["schema"], problem: "is \(present)", expected: "a version that the key versions has")
        }
        let oldest = versions.keys.min() ?? present
        if let newer = versions.keys.filter({ $0 > present }).min() {
            throw Fault(path: ["versions", String(newer)], problem: "is newer than the present version \(present)")
        }
        for number in oldest...present where versions[number] == nil {
            throw Fault(path: ["versions"], problem: "has no version \(number)", expected: "each version from \(oldest) to \(present)")
        }
        if let first = versions[oldest], !first.up.isEmpty || first.down != nil {
            throw Fault(path: ["versions", String(oldest)], problem: "has steps, and no version is before it", expected: "only a schema")
        }
        for number in accepts ?? [] where versions[number] == nil {
            throw Fault(path: ["accepts"], problem: "names the version \(number)", expected: "versions from \(oldest) to \(present)")
        }
        if let accepts, !accepts.contains(present) {
            throw Fault(path: ["accepts"], problem: "lacks the present version \(present)")
        }
        let least = accepts?.min() ?? oldest
        var downs: [Int: SchemaSteps] = [:]
        var reached = present
        for number in (oldest...present).reversed() where number > oldest {
            guard let version = versions[number] else { break }
            do throws(SchemaStep.NotInvertible) {
                if let down = version.down {
                    downs[number] = down
                } else {
                    downs[number] = try version.up.inverse(under: versions[number - 1]?.schema)
                }
            } catch {
                if number <= least { break }
                throw Fault(
                    path: ["versions", String(number)], problem: "cannot be shown as version \(number - 1): \(error)",
                    expected: "the steps back in the key down, or accepts without the versions before \(number)")
            }
            reached = number - 1
        }
        self.downs = downs
        self.accepts = (accepts ?? Array(reached...present)).sorted()
    }

    package var oldest: Int { versions.keys.min() ?? present }
    package var schema: DocumentSchema? { versions[present]?.schema }

    package func schema(of version: Int) -> DocumentSchema? { versions[version]?.schema }

    /// The steps from a version to the present one.
    ///
    /// - Returns: `nil` for a version that is not known.
    package func up(from version: Int) -> SchemaSteps? { steps(from: version, to: present) }

    /// The steps from the present version to an older one.
    ///
    /// - Returns: `nil` for a version that documents cannot be shown in.
    package func down(to version: Int) -> SchemaSteps? { steps(from: present, to: version) }

    /// The steps from one version to another, in either direction.
    ///
    /// - Returns: `nil` when one of the versions is not known, or when documents cannot be shown in the second.
    package func steps(from version: Int, to other: Int) -> SchemaSteps? {
        guard versions[version] != nil, versions[other] != nil else { return nil }
        var steps = SchemaSteps()
        if version <= other {
            for number in version..<other { steps = steps + (versions[number + 1]?.up ?? []) }
            return steps
        }
        for number in stride(from: version, to: other, by: -1) {
            guard let down = downs[number] else { return nil }
            steps = steps + down
        }
        return steps
    }

    /// The steps from the version of stored documents to the present one. Where the settings went back, the stored settings have them.
    package func steps(from stored: StoredSchema) -> SchemaSteps? {
        stored.number <= present ? up(from: stored.number) : stored.versions?.steps(from: stored.number, to: present)
    }
}

extension EntityRules {
    /// The version of the entity's documents.
    package var version: Int { versions?.present ?? 1 }
}
