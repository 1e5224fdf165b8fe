/// The references between the schemas of a schema: where they lead, and that no value is judged by one of them without end.
enum SchemaReferences {
    struct Reference {
        /// The schema that has the `$ref`.
        var schema: Int
        var place: String
        var text: String
    }

    static func target(of reference: Reference, _ places: [[UInt8]: Int]) throws(Problem) -> Int {
        guard reference.text.hasPrefix("#") else {
            throw SchemaReader.problem(reference.place, "must refer to a part of this schema, such as #/$defs/NAME")
        }
        let fragment = reference.text.dropFirst()
        guard let target = JSONPointer.decoded(fragment: fragment).flatMap({ places[$0] }) else {
            let known = places.keys.lazy.filter { $0.starts(with: "/$defs/".utf8) }.prefix(1_000).map {
                String(decoding: $0, as: UTF8.self)
            }
            let near = nearestName(to: String(fragment), among: known.sorted())
            throw SchemaReader.problem(
                reference.place, "there is no schema at \(reference.text.prefix(100))" + (near.map { "; did you mean #\($0)?" } ?? ""))
        }
        return target
    }

    /// Refuses a schema that applies itself to the same value again, and one whose chains of schemas for one value are too long.
    static func check(_ drafts: [SchemaNode.Draft], _ references: [Reference]) throws(Problem) {
        enum Mark { case unseen, open, done }
        var marks = [Mark](repeating: .unseen, count: drafts.count)
        /// The longest chain that begins at each schema.
        var lengths = [Int](repeating: 0, count: drafts.count)
        // Without recursion: a chain of references may be as long as the schema.
        for start in drafts.indices where marks[start] == .unseen {
            var open = [(schema: start, next: drafts[start].inPlace[...])]
            marks[start] = .open
            while let last = open.last {
                guard let schema = last.next.first else {
                    let length = 1 + (drafts[last.schema].inPlace.map { lengths[$0] }.max() ?? 0)
                    lengths[last.schema] = length
                    marks[last.schema] = .done
                    open.removeLast()
                    if length > JSONSchema.chainMax {
                        throw problem(at: last.schema, references, "more than \(JSONSchema.chainMax) schemas in a row apply to one value")
                    }
                    continue
                }
                open[open.count - 1].next.removeFirst()
                switch marks[schema] {
                case .done: break
                case .open:
                    throw problem(at: last.schema, references, "leads back to itself for the same value, so it could never be decided")
                case .unseen:
                    marks[schema] = .open
                    open.append((schema, drafts[schema].inPlace[...]))
                }
            }
        }
    }

    private static func problem(at schema: Int, _ references: [Reference], _ detail: String) -> Problem {
        // Every circle has a reference; this one closes it, or is near.
        let place = references.first { $0.schema == schema } ?? references.first
        return SchemaReader.problem(place?.place ?? "", detail)
    }

    /// Tells for each schema whether it, or one below it, has a rule between the members of an object.
    static func binding(_ drafts: [SchemaNode.Draft]) -> [Bool] {
        var users = [[Int]](repeating: [], count: drafts.count)
        for (number, draft) in drafts.enumerated() {
            for used in draft.inPlace + draft.below { users[used].append(number) }
        }
        var binding = drafts.map(\.bindsMembers)
        var open = binding.indices.filter { binding[$0] }
        while let number = open.popLast() {
            for user in users[number] where !binding[user] {
                binding[user] = true
                open.append(user)
            }
        }
        return binding
    }
}
