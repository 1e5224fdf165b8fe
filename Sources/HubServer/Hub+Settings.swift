package import SyncCore

extension Hub {
    package struct Settings: Sendable {
        package var rules: RuleBook {
            didSet { (sharesOut, schemas) = (Settings.shareOut(rules), SchemaNumbers(rules)) }
        }
        /// The rules have scopes, or rights that devices may lack. A hub without them works as if there were none.
        private(set) var sharesOut: Bool
        /// The present versions of the schemas.
        private(set) var schemas: SchemaNumbers
        /// Reads the entity settings that the database keeps, which then count in the place of the rules, the grants and the
        /// configuration here; `nil`: these count.
        package var readEntities: EntityReader?
        /// The entities file of the start; only with ``readEntities``.
        package var entityFile: EntityText?
        /// Grants of scopes and roles that the entities file has.
        package var access = AccessBook()
        package var scopesOfDatabase = ScopesOfDatabase.kept
        /// `nil` requires no credential: for tests, and a hub on a loopback address.
        package var tokens: TokenBook?
        /// Changes the tokens in their storage, and returns the changed book; `nil`: ``tokens`` is the only copy.
        package var changeTokens: TokenChange?
        /// The tokens are rows of the database, which all replicas share; ``tokens`` is read from there when it has changed.
        package var keepsTokens = false
        /// Receives the book after it was read from the database, for checks that come before the hub's.
        package var tokensRead: (@Sendable (TokenBook) -> Void)?
        /// Lifetime of tokens that an enrolment or a refresh issues; `nil`: they do not expire.
        package var tokenLife: Duration? = .seconds(90 * 86_400)
        /// Time after its end in which a device's last token may still request the next one.
        package var tokenGrace: Duration = .seconds(90 * 86_400)
        /// Decompresses request bodies; without one, gzip is refused with 415.
        package var compressor: (any Compressor)?
        /// Announced to agents: the time over which they spread out after an outage of the hub. About fleet size / capacity.
        package var spread: Duration = .seconds(30)
        /// Time after the beginning of a new history in which a change of an unknown record waits for the device that made the record.
        /// After it the record counts as deleted.
        package var offerTime: Duration = .seconds(7 * 86_400)
        /// Announced to agents. The limits that this hub itself enforces are larger and fixed (``Limits``).
        package var limits = HelloResponse.Announced()
        package var ablations: Ablations = .none
        /// The storage of files; `nil`: this hub accepts none.
        package var uploads: HubUploads?
        /// Times after which temporary data is dropped.
        package var retention = HubRetention()
        /// Free bytes on the disk of the database; `nil`: unknown.
        package var freeBytes: (@Sendable () -> Int64?)?
        /// Measures how long a search takes, which ends by that (``SearchPace``); `nil`: it ends by what it looks through alone.
        package var time: (any TimeSource)?
        /// Version of the program, for `/metrics`.
        package var version: String?
        /// The configuration for agents; `nil`: none, and they use their own.
        package var config: HubConfiguration?

        /// For a command that changes a database which a hub serves with rules of its own.
        package static var adopting: Settings {
            var settings = Settings()
            settings.scopesOfDatabase = .adopted
            return settings
        }

        package init(rules: RuleBook = RuleBook(), tokens: TokenBook? = nil, compressor: (any Compressor)? = nil) {
            self.rules = rules
            (sharesOut, schemas) = (Settings.shareOut(rules), SchemaNumbers(rules))
            self.tokens = tokens
            self.compressor = compressor
        }
    }

    /// The fate of the scopes of the database's entities for which the rules have no scope.
    package enum ScopesOfDatabase: Sendable {
        /// The hub does not open: the records would go to all devices.
        case kept
        /// They end: every device receives all records of the entity.
        case dropped
        /// They count, as those of all entities do: this hub is a command beside those that serve.
        case adopted
    }
}
