import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

/// The readers of `GET /v1/events`. Each has a position in the journal and gets its events from there, never directly. So a reader that was
/// away or slow misses no event that is still kept.
package final class EventStreams: @unchecked Sendable {
    // Sendable because every method runs on the loop of `executor`; nothing else touches the state.
    private let reader: StoreReader
    private let executor: LoopExecutor
    private var streams: [UInt64: Stream] = [:] {
        didSet { if streams.isEmpty != oldValue.isEmpty { onPresence?() } }
    }
    private var lastNumber: UInt64 = 0
    private var keepAlive: LoopTimer?
    /// Called when the first reader comes and when the last one leaves.
    var onPresence: (() -> Void)?

    /// Number of events in one read; a long journal takes many of them, at the pace of the socket.
    private static let pageSize = 200

    init(reader: StoreReader, executor: LoopExecutor) {
        self.reader = reader
        self.executor = executor
    }

    private struct Stream {
        var exchange: HTTPExchange
        /// The user that reads the stream.
        var group: PeerGroup
        var filter: JournalFilter
        /// The last event that was sent or skipped; `nil` until the first read found the journal's end.
        var position: Int64?
        var isReading = false
        /// The journal may have grown since the running read began.
        var isStale = false
        /// Bytes were written since the last keep-alive.
        var wasBusy = false
    }

    package var count: Int { streams.count }

    /// Largest number of streams of one user: half of its connections, so that its short requests find one.
    static let perUserMax = 4

    func hasRoom(for group: PeerGroup) -> Bool {
        streams.values.count { $0.group == group } < Self.perUserMax
    }

    func add(_ exchange: HTTPExchange, filter: JournalFilter, after position: Int64?) {
        lastNumber += 1
        let number = lastNumber
        exchange.begin(
            status: 200, headers: [("Content-Type", LocalAnswer.eventStream), ("Cache-Control", "no-store")])
        // Confirms the stream at once, for clients that wait for the first byte. A reader without a position gets the journal's end
        // instead, as soon as it is read: from then on no event is missed, not even over a reconnect.
        if position != nil { exchange.write(EventStream.keepAlive) }
        streams[number] = Stream(exchange: exchange, group: exchange.request.peer.group, filter: filter, position: position)
        exchange.onClose { [weak self] in self?.remove(number) }
        feed(number)
        scheduleKeepAlive()
    }

    /// Called when the journal may have grown.
    package func sendNew() {
        for number in streams.keys { feed(number) }
    }

    package func closeAll() {
        for stream in streams.values { stream.exchange.end() }
        streams.removeAll()
        keepAlive?.cancel()
        keepAlive = nil
    }

    private func remove(_ number: UInt64) {
        // The exchange is over; ending the stream reports that to it.
        streams.removeValue(forKey: number)?.exchange.abort()
        if streams.isEmpty {
            keepAlive?.cancel()
            keepAlive = nil
        }
    }

    private func feed(_ number: UInt64) {
        guard var stream = streams[number] else { return }
        if stream.isReading {
            streams[number]?.isStale = true
            return
        }
        stream.isReading = true
        stream.isStale = false
        streams[number] = stream
        let (filter, position) = (stream.filter, stream.position)
        reader.read { reads, _ throws(StoreError) in
            // Without a position the stream begins with the next event.
            try reads.journal(after: position ?? .max, limit: position == nil ? 0 : Self.pageSize, filter: filter)
        } completion: { [weak self] result in
            self?.fed(number, result)
        }
    }

    private func fed(_ number: UInt64, _ result: Result<JournalPage, StoreError>) {
        guard var stream = streams[number] else { return }
        stream.isReading = false
        guard case .success(let page) = result else {
            // The client reconnects with its last id, which is the purpose of ids.
            streams.removeValue(forKey: number)?.exchange.abort()
            return
        }
        let bytes = text(of: page, after: stream.position)
        stream.position = stream.position == nil ? page.newest : page.next
        if !bytes.isEmpty {
            if stream.exchange.unsentBytes + bytes.count > EventStream.backlogMax {
                stream.exchange.write(EventStream.overflow)
                stream.exchange.end()
                streams[number] = nil
                return
            }
            stream.wasBusy = true
            stream.exchange.write(bytes)
        }
        let goesOn = stream.isStale || page.next < page.newest
        streams[number] = stream
        // The reader sets the pace: the next page is read only when the last one was sent.
        if goesOn, stream.position != page.newest || stream.isStale {
            stream.exchange.whenWritable { [weak self] in self?.feed(number) }
        }
    }

    private func text(of page: JournalPage, after position: Int64?) -> [UInt8] {
        guard let position else { return EventStream.start(at: page.newest) }
        var bytes: [UInt8] = []
        // The events in between were removed, or can no longer be shown: the reader must read the records again.
        if position.saturatingAdd(1) < page.oldest || position > page.newest || page.isGapped { bytes += EventStream.reset(id: page.next) }
        for event in page.events {
            let (type, json) = event.text
            bytes += EventStream.event(id: event.id, type: type, data: json)
        }
        return bytes
    }

    private func scheduleKeepAlive() {
        guard keepAlive == nil, !streams.isEmpty else { return }
        keepAlive = executor.schedule(after: EventStream.keepAliveInterval) { [weak self] in
            guard let self else { return }
            keepAlive = nil
            for (number, stream) in streams {
                if !stream.wasBusy { stream.exchange.write(EventStream.keepAlive) }
                streams[number]?.wasBusy = false
            }
            scheduleKeepAlive()
        }
    }
}

extension Agent {
    func streamEvents(_ call: LocalCall, _ query: EventQuery) throws(Problem) {
        let position = try EventStream.position(lastEventID: call.exchange.request.header("Last-Event-ID"))
        if let entity = query.entity { try call.checkEntity(entity) }
        guard events.hasRoom(for: call.exchange.request.peer.group) else {
            throw LocalProblem.rate.problem(
                "this user reads \(EventStreams.perUserMax) event streams, which is the most at one time: close one of them", retryAfter: 5)
        }
        // A caller without the role operate sees only events of the entities that its rules allow.
        var filter = JournalFilter()
        filter.types = Set((query.types ?? []).map(\.rawValue))
        if let entity = query.entity {
            filter.entities = [entity]
        } else if let entities = call.peer.entities, !call.peer.allows(.operate) {
            filter.entities = entities
        }
        events.add(call.exchange, filter: filter, after: position)
    }
}

extension JournalEvent {
    /// The event in the form of the local API.
    var text: (type: String, json: [UInt8]) {
        switch body {
        case .mutation(let it):
            (
                "mutation",
                EventPayload.mutation(
                    it.key, seq: it.seq, state: it.state, record: it.record, problem: it.problem, into: it.into)
            )
        case .record(let it):
            (
                "record",
                EventPayload.record(
                    it.record, isDeletion: it.change != .upsert, isRevoked: it.change == .revoke, isRemote: it.source == .remote,
                    version: it.version, status: it.status)
            )
        case .note(let type, let json): (type, Array(json.utf8))
        }
    }
}
