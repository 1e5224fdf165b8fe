extension AgentClient {
    /// The changes as they happen, over any number of connections, none lost and none twice.
    ///
    /// A feed without `after` begins with a reload: the app reads then what it needs, and later changes come as events. To go on
    /// after a restart of the app, store ``FeedEvent/position`` when an event is handled, and pass it as `after`.
    ///
    ///     for try await event in agent.follow([.record], after: stored) {
    ///         …
    ///         stored = event.position
    ///     }
    ///
    /// - Parameters:
    ///   - kinds: All kinds if empty.
    ///   - giveUpAfter: The time without a connection after which the feed ends with an error; `nil`: it never does. The first
    ///     connection has the deadline of an ordinary call.
    public func follow(
        _ kinds: [FeedEvent.Kind] = [], entity: String? = nil, after: FeedEvent.Position? = nil, giveUpAfter: Duration? = nil
    ) -> Feed {
        Feed(session: session, kinds: kinds, entity: entity, after: after, giveUpAfter: giveUpAfter)
    }
}

/// The feed of ``AgentClient/follow(_:entity:after:giveUpAfter:)``. Each iterator has a connection of its own.
public struct Feed: AsyncSequence, Sendable {
    public typealias Element = FeedEvent
    public typealias Failure = EdgeSyncError

    let session: Session
    let kinds: [FeedEvent.Kind]
    let entity: String?
    let after: FeedEvent.Position?
    let giveUpAfter: Duration?

    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let feed: Feed
        private let reader: FeedReader
        private var failures = 0
        private var hasStood = false
        private var lastContact: Duration
        private var hasEnded = false

        init(_ feed: Feed) {
            self.feed = feed
            reader = FeedReader(feed.session, feed.kinds, entity: feed.entity, after: feed.after, end: nil)
            lastContact = feed.session.environment.now()
        }

        public mutating func next() async throws(EdgeSyncError) -> FeedEvent? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(EdgeSyncError) -> FeedEvent? {
            if hasEnded { return nil }
            while true {
                do {
                    let event = try await reader.next()
                    (hasStood, failures) = (true, 0)
                    return event
                } catch {
                    do { try await pause(after: error) } catch {
                        hasEnded = true
                        throw error
                    }
                }
            }
        }

        /// Waits until the feed may connect again.
        private nonisolated(nonsending) mutating func pause(after error: EdgeSyncError) async throws(EdgeSyncError) {
            let session = feed.session
            failures += 1
            if await reader.consumeStood() { (hasStood, lastContact) = (true, session.environment.now()) }
            let patience = hasStood ? feed.giveUpAfter : session.deadline
            let elapsed = session.environment.now() - lastContact
            let failure = RetryPolicy.Failure(
                error: error, tries: failures, wasSent: true, isRepeatable: true, wasConnected: session.wasConnected,
                elapsed: elapsed, left: patience.map { $0 - elapsed })
            guard let wait = session.policy.decide(failure, draw: session.environment.draw()) else { throw error }
            try await session.pause(wait)
        }
    }
}

/// Reads a feed, one connection after the other, and keeps the position.
actor FeedReader {
    private let session: Session
    private let kinds: [FeedEvent.Kind]
    private let entity: String?
    private let end: Duration?
    private var position: FeedPosition
    private var parser = EventParser()
    private var open: (connection: Connection, exchange: Exchange)?
    private var blocks: ArraySlice<EventBlock> = []
    private var stood = false

    /// - Parameter end: Time of the monotonic clock at which reading fails; `nil` if it may take any time.
    init(_ session: Session, _ kinds: [FeedEvent.Kind], entity: String?, after: FeedEvent.Position?, end: Duration?) {
        self.session = session
        self.kinds = kinds
        self.entity = entity
        self.end = end
        position = FeedPosition(after?.rawValue)
    }

    /// A connection stood since the last call of this function.
    func consumeStood() -> Bool {
        defer { stood = false }
        return stood
    }

    /// The next event. It connects where there is no connection.
    ///
    /// - Throws: The reason why the connection ended, or did not come about. The next call connects again.
    func next() async throws(EdgeSyncError) -> FeedEvent {
        do throws(EdgeSyncError) {
            while true {
                while let block = blocks.popFirst() {
                    if let (block, place) = try position.accept(block) { return try FeedEvent(block, at: place) }
                }
                let (connection, exchange) = try await connect()
                let piece = try await connection.perform { () throws(EdgeSyncError) in try exchange.readPiece() }.get()
                guard !piece.isEmpty else { throw .brokenAnswer("the agent ended the feed") }
                blocks = try parser.feed(piece)[...]
            }
        } catch {
            (open, blocks) = (nil, [])
            var error = error
            error.request = error.request ?? "GET /v1/events"
            throw error
        }
    }

    private func connect() async throws(EdgeSyncError) -> (connection: Connection, exchange: Exchange) {
        if let open { return open }
        let kinds = kinds.isEmpty ? nil : kinds.map(\.rawValue).joined(separator: ",")
        let request = try Request(
            "GET", "/v1/events" + Request.query([("types", kinds), ("entity", entity)]),
            fields: [("Accept", "text/event-stream")] + (position.position.map { [("Last-Event-ID", String($0))] } ?? []),
            silence: Limits.feedSilence)
        let connection = try Connection()
        let exchange = try await session.open(connection, request, end: end)
        let status = try await connection.perform { () throws(EdgeSyncError) in try exchange.readHead() }.get()
        if status != 200 {
            try await connection.perform { () throws(EdgeSyncError) in try exchange.readAll() }.get().checkStatus()
            throw .badAnswer("the agent answered with the status \(status)")
        }
        try Response(status: status, fields: exchange.reader.fields, body: []).checkType("text/event-stream")
        stood = true
        parser = EventParser()
        position.begin()
        open = (connection, exchange)
        return (connection, exchange)
    }
}
