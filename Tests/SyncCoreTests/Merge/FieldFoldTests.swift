import SyncCore
import Testing

@Suite("Many operations on one field")
struct FieldFoldTests {
    @Test("A mutation of many operations does what they do one after the other", arguments: 0..<60)
    func isLikeOneByOne(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        var document: JSONObject = ["text": "a", "null": JSON.null, "number": 3]
        document["set"] = .array((0..<Int.random(in: 0...20, using: &random)).map { _ in Self.element(&random) })
        var operations: [FieldOperation] = []
        for _ in 0..<Int.random(in: 1...40, using: &random) {
            let field = ["text", "null", "number", "set", "new", "other"].randomElement(using: &random) ?? ""
            let kind = FieldOperation.Kind.allCases.randomElement(using: &random) ?? .add
            let value: JSON =
                switch kind {
                case .add, .remove: Self.element(&random)
                case .append: Bool.random(using: &random) ? "x\"" : [Self.element(&random), Self.element(&random)]
                case .increment, .max, .min: .int(Int.random(in: -3...3, using: &random))
                }
            operations.append(FieldOperation(field, kind, value))
        }
        var expected = document
        var misfit: Int?
        for (index, operation) in operations.enumerated() {
            if misfit == nil, !Fold.fits(operation, expected[operation.field]) { misfit = index }
            expected[operation.field] = Fold.apply(operation, to: expected[operation.field])
        }
        let folded = Fold.apply(MutationContent(.update, operations: operations), to: document)
        #expect(folded?.json == expected.json)
        #expect(Fold.firstMisfit(of: operations, on: document)?.index == misfit)
    }

    /// Often the same one again, sometimes another one with the same id.
    private static func element(_ random: inout SeededRandom) -> JSON {
        let number = Int.random(in: 0...6, using: &random)
        return number < 3 ? .int(number) : ["id": .int(number % 2), "v": .int(Int.random(in: 0...1, using: &random))]
    }
}
