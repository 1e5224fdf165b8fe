import SyncCore

// Tokens as rows of a database that several hubs share: a device that one of them has enrolled is known to all at once.
extension Hub {
    /// The tokens that are in force; only where the database keeps them.
    package func tokens() throws(HubError) -> TokenBook {
        try changeTokens { _ in }
    }

    /// Reads changes by other hubs, for a caller whose token is not in the book.
    ///
    /// - Returns: The problem to answer when the database fails.
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
                // A connection that was cut while idle shows only now.
                if tries == 1, [.lost, .contended].contains(error.kind) { continue }
                return Hub.unavailable(error)
            }
        }
    }

    /// Changes the book that the database keeps, and returns the changed book.
    @discardableResult
    package func changeTokens(_ change: (inout TokenBook) -> Void) throws(HubError) -> TokenBook {
        try transact { () throws(DatabaseError) in
            try readTokens()
            return try keepTokens(change)
        }
    }

    /// Updates the book to the state that the present transaction sees.
    func readTokens() throws(DatabaseError) {
        if tokenCache.version != state.tokens {
            if tokenCache.version > state.tokens { tokenCache = TokenCache() }
            let changes = try store.tokens(after: tokenCache.version)
            tokenCache.book.apply(changes)
            tokenCache.version = state.tokens
            settings.tokensRead?(tokenCache.book)
        }
        settings.tokens = tokenCache.book
    }

    /// Writes a change of the book within the present transaction, which must be one that writes.
    @discardableResult
    func keepTokens(_ change: (inout TokenBook) -> Void) throws(DatabaseError) -> TokenBook {
        var book = tokenCache.book
        change(&book)
        let changes = book.changes(since: tokenCache.book)
        if !changes.isEmpty {
            state.tokens += 1
            try store.keep(changes, tokens: state.tokens)
            // Until the commit no other thread may use it, and without a commit this hub may not either.
            tokenCache = TokenCache(version: state.tokens, book: book, isTentative: true)
            settings.tokens = book
        }
        return book
    }

    /// Records that devices have shown their new tokens, in a transaction after theirs.
    func markShownTokens(at now: Timestamp) {
        let entries = shown
        shown = []
        guard settings.keepsTokens, !entries.isEmpty else { return }
        // A failure is reported, and the token is shown again with the next request.
        _ = try? transact(.writingIfFree) { () throws(DatabaseError) in
            try readTokens()
            try keepTokens { book in
                for entry in entries { book.confirm(entry, at: now) }
            }
        }
    }

    /// Keeps a change of the book when its transaction was committed, and drops it otherwise.
    func endTokenChange(committed: Bool) {
        guard tokenCache.isTentative else { return }
        if committed {
            tokenCache.isTentative = false
            settings.tokensRead?(tokenCache.book)
        } else {
            tokenCache = TokenCache()
        }
    }
}

/// The book of tokens as it was last read from the database.
struct TokenCache {
    /// Incremented with each change.
    var version: Int64 = -1
    var book = TokenBook()
    /// `true` while it has an uncommitted change.
    var isTentative = false
}

extension HubStore {
    /// Changes of tokens after a version of the book; `nil` for a removed one.
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
        // A damaged book must neither admit a device by accident nor appear to be in order.
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
