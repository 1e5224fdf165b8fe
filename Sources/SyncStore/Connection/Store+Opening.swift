import Glibc
package import SyncCore

extension Store {
    /// Invariant: a database that has lost acknowledged work never uses its old replica id again. The mark that it is in use is on the
    /// medium before anything else.
    func markInUse(at now: Moment) throws(StoreError) {
        let meta = MetaTable(database)
        try transact(at: now) { () throws(StoreError) in
            try meta.set("clean", "0")
            try meta.set("age", ages.text)
            if database.checksSeals { try meta.set(MetaTable.sealed, "1") }
            if opening.isNew {
                try meta.set("replica", replica.text)
                try meta.set("created_ms", String(now.wall.milliseconds))
            }
            try prepareForChange()
            try noticeLostTail(at: now)
            if !opening.isNew { try pairConflicts() }
        }
        // The first page has to be in the file itself, because it identifies a foreign file (OpeningSequence).
        if opening.isNew, let path = database.path {
            try database.checkpoint(truncating: true)
            // The name of a new file must be as durable as its content.
            try StoreFiles.sync(StoreFiles.parent(of: path))
        }
    }

    private func noticeLostTail(at now: Moment) throws(StoreError) {
        // A number that no database can have reached is damaged and has no meaning.
        guard let marker = options.marker, marker.acknowledged >= ledger[.nextSeq], marker.acknowledged <= Ledger.most else { return }
        opening.lostTail = marker.acknowledged - (ledger[.nextSeq] - 1)
        ledger[.tailLost] += opening.lostTail
        // Apps know the lost numbers, so they are not used again.
        ledger[.nextSeq] = marker.acknowledged + 1
        ledger[.absorbedSeq] = marker.acknowledged
        try setReplica(ReplicaID(trusted: UUIDv7.make(at: now.wall, using: &random)))
    }

    /// Marks the database as closed cleanly and moves the WAL into it. The store must not be used afterwards.
    package func close(at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            ages.anchor(bootID: options.bootID, at: now)
            try MetaTable(database).set("age", ages.text)
            try MetaTable(database).set("clean", "1")
            try prepareForChange()
        }
        if database.path != nil { try database.checkpoint(truncating: true) }
    }
}
