import SyncCore

// Tokens as rows, where several hubs share a database: a device that was enrolled by one of them is known to all, at once.
extension Hub {
    /// The tokens that are in force; only where the database keeps them.
    package func tokens() throws(HubError) -> TokenBook {
        try changeTokens { _ in }
    }

    /// Reads what other hubs have changed, for a caller whose token is not in the book.
    ///
    /// - Returns: What to answer instead when the database does not say.
    func lookUpTokens(at now: Timestamp) -> Problem? {
        var tries = 0
        while true {
            if isDown { reopen(at: now) }
            let before = state
            tries += 1
            do throws(DatabaseError) {
                try begin(.reading)
                try commit()
                return nil
            } catch {
                abandon(error)
                state = before
                // A connection that was cut while nothing happened shows only now.
                if tries == 1, [.lost, .contended].contains(error.kind) { continue }
                return Hub.unavailable(error)
            }
        }
    }

    /// Changes the book that the database keeps, and returns it as it is then.
    @discardableResult
    package func changeTokens(_ change: (inout TokenBook) -> Void) throws(HubError) -> TokenBook {
        try transact { () throws(DatabaseError) in
            try readTokens()
            return try keepTokens(change)
        }
    }

    /// Brings the book up to what the present transaction sees.
    func readTokens() throws(DatabaseError) {
        if shelf.version != state.tokens {
            if shelf.version > state.tokens { shelf = TokenShelf() }
            let changes = try store.tokens(after: shelf.version)
            shelf.book.take(changes)
            shelf.version = state.tokens
            settings.tokensRead?(shelf.book)
        }
        settings.tokens = shelf.book
    }

    /// Writes a change of the book within the present transaction, which must be one that writes.
    @discardableResult
    func keepTokens(_ change: (inout TokenBook) -> Void) throws(DatabaseError) -> TokenBook {
        var book = shelf.book
        change(&book)
        let changes = book.changes(since: shelf.book)
        if !changes.isEmpty {
            state.tokens += 1
            try store.keep(changes, tokens: state.tokens)
            // Until the commit nobody else may know it, and if there is none, neither may we.
            shelf = TokenShelf(version: state.tokens, book: book, isTentative: true)
            settings.tokens = book
        }
        return book
    }

    /// Notes that devices have shown the tokens that they were given, in a transaction that comes after theirs.
    func noteShownTokens(at now: Timestamp) {
        let entries = shown
        shown = []
        guard settings.keepsTokens, !entries.isEmpty else { return }
        // If it fails, it is reported, and the token is shown again with the next request.
        _ = try? transact(.writingIfFree) { () throws(DatabaseError) in
            try readTokens()
            try keepTokens { book in
                for entry in entries { book.confirm(entry, at: now) }
            }
        }
    }

    /// The transaction that the book was changed in is taken back, or through.
    func settleShelf(committed: Bool) {
        guard shelf.isTentative else { return }
        if committed {
            shelf.isTentative = false
            settings.tokensRead?(shelf.book)
        } else {
            shelf = TokenShelf()
        }
    }
}

/// The book of tokens as it was read last from the database.
struct TokenShelf {
    /// Counted up with each change.
    var version: Int64 = -1
    var book = TokenBook()
    /// Holds what is not committed yet.
    var isTentative = false
}

extension HubStore {
    /// What became of tokens after a version of the book.
    func tokens(after version: Int64) throws(DatabaseError) -> [[UInt8]: TokenBook.Entry?] {
        var changes: [[UInt8]: TokenBook.Entry?] = [:]
        var damaged = 0
        try database.read("SELECT hash, entry FROM token WHERE changed > ?", [.int(version)]) { row in
            guard let text = row.optionalText(1) else {
                changes[row.blob(0)] = .some(nil)
                return true
            }
            if let entry = TokenBook.Entry(reading: text) { changes[row.blob(0)] = .some(entry) } else { damaged += 1 }
            return true
        }
        // A damaged book lets nobody in by accident, and nobody believe that all is well.
        guard damaged == 0 else {
            throw DatabaseError(.other, doing: "read the tokens", detail: "\(damaged) rows of the table token are not token entries")
        }
        return changes
    }

    func keep(_ changes: [[UInt8]: TokenBook.Entry?], tokens version: Int64) throws(DatabaseError) {
        for (hash, entry) in changes {
            try database.run(
                """
                INSERT INTO token(hash, entry, changed) VALUES(?1, ?2, ?3)
                ON CONFLICT(hash) DO UPDATE SET entry = ?2, changed = ?3
                """, .blob(hash), DatabaseValue(entry?.line), .int(version))
        }
        try database.run("UPDATE token_book SET version = ?", .int(version))
    }
}
