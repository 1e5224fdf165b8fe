package import SyncCore

// Records up to which event the hub was told about faults. The journal holds the faults; only this mark is stored besides.
extension Store {
    package func markDiagnosticsSent(upTo event: Int64, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in try MetaTable(database).set("diagnostics_sent", String(event)) }
    }
}

extension StoreReads {
    /// The last event that the hub was told; 0 if there is none.
    package func diagnosticsSent() throws(StoreError) -> Int64 {
        try MetaTable(database).text("diagnostics_sent").flatMap { Int64($0) } ?? 0
    }

    /// The newest notes of the journal, oldest first: events of the agent, not of records.
    package func notes(after: Int64, limit: Int, types: Set<String>) throws(StoreError) -> (notes: [JournalEvent], newest: Int64) {
        var filter = JournalFilter()
        filter.types = types
        var page = try journal(after: after, limit: limit, filter: filter)
        var notes = page.events
        // A page covers only some rows, and most of them are about records.
        var pages = 1
        while page.next < page.newest, pages < Self.pagesMax {
            page = try journal(after: page.next, limit: limit, filter: filter)
            notes += page.events
            pages += 1
        }
        return (Array(notes.suffix(limit)), page.newest)
    }

    private static let pagesMax = 40
}
