package import SyncCore

/// The agent's durable memory: outbox and mirror in one SQLite file.
///
/// Synchronous and single-threaded; ``StoreWriter`` gives it a thread. Each operation is one transaction, or joins the one
/// that is open (``begin(at:)``), and leaves nothing behind when it throws.
package final class Store {
    package let database: Database
    package let options: StoreOptions
    package var capacity = StoreCapacity()
    package let opening: StoreOpening
    /// May change at any time; what is enqueued later follows it.
    package var rules: RuleBook
    /// Free bytes of the file system, as last measured; `nil` means unknown.
    package var freeBytes: Int64?
    /// How far the wall clock is trusted now; stored with each mutation.
    package var clockTrust: ClockTrust = .synced
    /// Called before and after each commit; for tests.
    package var gate: ((CommitStage) throws(StoreError) -> Void)?

    /// Opens or makes the schema in `database`, brings it up to date, and takes up where the last life ended.
    package init(_ database: Database, _ options: StoreOptions, at now: Moment) throws(StoreError) {
        self.database = database
        self.options = options
        self.rules = options.rules
        self.opening = StoreOpening()
    }
}
