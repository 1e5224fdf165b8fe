/// A JSON Schema, dialect 2020-12, that was read once and judges any number of values.
///
/// A schema can come from a server, so no schema and no value may take long: a schema has a limited size when it is read, and a judgement
/// a limited number of steps. Keywords that are not supported are refused when the schema is read, because users would rely on a rule that
/// is not enforced. The manual lists them (deploy/docs/schemas.md).
package struct JSONSchema: Sendable {
    /// Largest number of schemas in a schema. A form of 100 questions has some 600.
    package static let schemasMax = 20_000
    /// Largest nesting of schemas; references are not counted.
    package static let depthMax = 16
    /// Largest nesting of arrays and objects of the schema's own text: a message that brings the schema puts some levels around it.
    package static let textDepthMax = Limits.jsonDepth - Limits.messageDepth
    /// Largest number of schemas that can apply to one value in a row, by references and combinations.
    package static let chainMax = 64
    /// Largest size of all patterns together (``LinearPattern/size``), which is their memory.
    package static let patternsMax = 100_000
    /// Largest number of steps of one judgement: a step is a rule, a member, an element, or a state of a pattern. A document of 256 KiB
    /// with 20,000 values takes 100,000 under an ordinary schema, and a million steps take some 20 ms. What costs more, such as comparing
    /// whole values, counts as several steps.
    package static let stepsMax = 2_000_000
    /// Largest number of schemas within each other while a value is judged, which limits the stack.
    package static let levelsMax = 512

    /// The schema as it was given.
    package let json: JSON
    let nodes: [SchemaNode]
    let root: Int

    /// - Throws: `validation` with a pointer into the schema.
    package init(_ json: JSON) throws(Problem) {
        self.json = json
        var reader = SchemaReader()
        (nodes, root) = try reader.read(json)
    }

    /// Judges one value by the whole schema.
    ///
    /// - Parameter nullIsMissing: A member or an element that is null counts as missing, and no rule of its own looks at it.
    package func judge(_ value: JSON, nullIsMissing: Bool = false) -> SchemaJudgement {
        judge(at: "", nullIsMissing) { $0.judge(root, value) }
    }

    /// Judges with as little work as possible, and only when that finds a fault once more for the texts.
    func judge(
        at pointer: String, _ nullIsMissing: Bool, _ extent: SchemaJudge.Extent = .everything,
        faultsMax: Int = SchemaJudgement.faultsMax, _ body: (inout SchemaJudge) -> Bool
    ) -> SchemaJudgement {
        var quick = SchemaJudge(self, nullIsMissing, extent)
        let fits = body(&quick)
        if quick.isExhausted { return .tooCostly(at: pointer, steps: quick.steps) }
        if fits { return SchemaJudgement(steps: quick.steps) }
        var thorough = SchemaJudge(self, nullIsMissing, extent, collecting: pointer, faultsMax: faultsMax)
        _ = body(&thorough)
        let steps = quick.steps + thorough.steps
        // The faults that it found until then are real.
        return thorough.faults.isEmpty ? .tooCostly(at: pointer, steps: steps) : SchemaJudgement(faults: thorough.faults, steps: steps)
    }
}

extension JSONSchema: Hashable {
    // Everything else follows from the text.
    package static func == (left: JSONSchema, right: JSONSchema) -> Bool { left.json == right.json }
    package func hash(into hasher: inout Hasher) { hasher.combine(json) }
}

/// One rule that a value breaks.
package struct SchemaFault: Hashable, Sendable {
    /// The place of the value as a JSON pointer.
    package var pointer: String
    /// The expectation and the value that was found.
    package var detail: String
    /// The rule: the number of its schema, and its keyword.
    var schema: Int
    var keyword: String
    /// The distance of the value from what the rule asks for. A value of another kind is farther than one that is too long.
    var distance: Int
}

package struct SchemaJudgement: Hashable, Sendable {
    /// Enough for a correction; a document with a thousand wrong fields needs no thousand sentences.
    package static let faultsMax = 50

    /// Empty when the value fits.
    package var faults: [SchemaFault] = []
    /// The value was not judged to the end. It does not count as one that fits.
    package var isTooCostly = false
    /// Number of steps that it took.
    package var steps = 0

    package var fits: Bool { faults.isEmpty && !isTooCostly }

    static func tooCostly(at pointer: String, steps: Int) -> SchemaJudgement {
        let detail =
            "cannot be judged by its schema within \(JSONSchema.stepsMax) steps and \(JSONSchema.levelsMax) levels; make the document "
            + "smaller or the schema simpler"
        return SchemaJudgement(
            faults: [
                SchemaFault(pointer: pointer, detail: detail, schema: 0, keyword: "", distance: 1)
            ], isTooCostly: true, steps: steps)
    }
}
