import SyncCore

/// A set of states that SQL tests by number, beside the same set in the words of the code.
///
/// Most statements are whole literals, because a connection keeps each prepared statement by the address of its literal. So they write
/// the test itself, `state < 6` for an open mutation, in the form that the partial indexes have. `StateSetTests` reads every statement of
/// this target and holds each test of a state to these sets. Composed SQL takes ``sql``.
///
/// A new state of a mutation is named in `MutationState`, and its number in a new step of ``Schema``.
package struct StateSet: Hashable, Sendable {
    /// A table whose rows have a state.
    package enum Table: String, CaseIterable, Sendable {
        case mutation, conflict, blob
        case recordIndex = "record_index"

        /// The number of each state.
        package var numbers: Set<Int> {
            switch self {
            case .mutation: Set(MutationState.allCases.map(\.rawValue))
            case .conflict: Set(ConflictRow.State.allCases.map(\.rawValue))
            case .blob: Set(BlobState.allCases.map(\.number))
            case .recordIndex: Set(RecordIndexes.State.allCases.map { Int($0.rawValue) })
            }
        }
    }

    package let table: Table
    /// The test of the column `state`.
    package let sql: String
    /// Numbers of the states in the set.
    package let numbers: Set<Int>

    private init(_ table: Table, _ sql: String, _ numbers: [Int]) {
        self.table = table
        self.sql = sql
        self.numbers = Set(numbers)
    }

    private static func mutations(_ sql: String, where contains: (MutationState) -> Bool) -> StateSet {
        StateSet(.mutation, sql, MutationState.allCases.filter(contains).map(\.rawValue))
    }

    private static func conflicts(_ sql: String, where contains: (ConflictRow.State) -> Bool) -> StateSet {
        StateSet(.conflict, sql, ConflictRow.State.allCases.filter(contains).map(\.rawValue))
    }

    // MARK: Mutations

    /// The condition of the index `mutation_record`.
    static let open = mutations("state < 6") { !$0.isTerminal }
    static let terminal = mutations("state >= 6") { $0.isTerminal }
    static let folded = mutations("state < 6 AND state <> 3") { $0.isFolded }
    static let unsettled = mutations("state IN (0, 1)") { $0.isUnsettled }
    static let unanswered = mutations("state IN (0, 1, 4, 5)") { $0.isUnanswered }
    /// The condition of the index `mutation_parked`.
    static let troubled = mutations("state BETWEEN 2 AND 5") { $0.isTroubled }
    static let troubledWithoutConflict = mutations("state BETWEEN 3 AND 5") { $0.isTroubled && $0 != .conflicted }
    static let openWithoutConflict = mutations("state < 6 AND state <> 2") { !$0.isTerminal && $0 != .conflicted }
    /// The hub has applied none of them, as far as this device knows.
    static let notApplied = mutations("state IN (0, 2)") { $0 == .pending || $0 == .conflicted }
    static let foldedHere = mutations("state < 6 AND state NOT IN (1, 3)") { $0.isFolded && $0 != .inFlight }

    // MARK: Conflicts, files, indexes

    /// The condition of the index `conflict_open`.
    static let openConflict = conflicts("state < 2") { $0.isOpen }
    static let unfinishedConflict = conflicts("state < 3") { $0.isOpen || $0 == .resolving }
    static let notUploaded = StateSet(.blob, "state IN (0, 2)", [BlobState.pending, .failed].map(\.number))
    static let pendingBlob = StateSet(.blob, "state = 0", [BlobState.pending.number])
    static let keptIndex = StateSet(.recordIndex, "state < 2", [RecordIndexes.State.building, .complete].map { Int($0.rawValue) })

    /// The sets that statements test, besides those of one state, of all others, and of all.
    package static let all = [
        open, terminal, folded, unsettled, unanswered, troubled, troubledWithoutConflict, openWithoutConflict, notApplied, foldedHere,
        openConflict, unfinishedConflict, notUploaded, pendingBlob, keptIndex,
    ]
}
