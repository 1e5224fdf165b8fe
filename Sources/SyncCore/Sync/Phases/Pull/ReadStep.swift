/// The event that the pull waits for. The step of a call holds the streams of the request.
enum ReadStep: Hashable, Sendable {
    /// Before a pull, when not everything may be settled: mutations in flight prevent the pull.
    case lookingForUnsettled
    case loadingStreams
    case pulling([StreamPosition], call: UInt64)
    case applyingPull([StreamPosition], restart: [EntityName])
    case restartingStreams
    case listing(StreamPosition, call: UInt64)
    case applyingSnapshot
    case seeding(StreamPosition, call: UInt64)
    case applyingSeed
    case digesting(StreamPosition)
    case verifying(StreamPosition, call: UInt64)
    case recordingComparison

    var call: UInt64? {
        switch self {
        case .pulling(_, let call), .listing(_, let call), .seeding(_, let call), .verifying(_, let call): call
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            nil
        }
    }

    /// `true` when the content of the call is in its answer.
    var isReading: Bool {
        switch self {
        case .pulling, .listing, .seeding: true
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .verifying, .recordingComparison:
            false
        }
    }

    /// The awaited answer, for people.
    var awaited: String {
        switch self {
        case .pulling: "pull"
        case .listing: "listing"
        case .verifying: "comparison"
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .seeding, .applyingSeed,
            .digesting, .recordingComparison:
            "the store"
        }
    }

    /// Returns whether the step asks for one stream alone that has failed before.
    func hasFailedBefore(_ readings: ReadingMemory) -> Bool {
        switch self {
        case .pulling(let requested, _): requested.count == 1 && requested.allSatisfy { readings.held[$0.entity] != nil }
        case .listing(let position, _), .seeding(let position, _): readings.held[position.entity] != nil
        case .verifying(let position, _): readings.uncompared[position.entity] != nil
        case .lookingForUnsettled, .loadingStreams, .applyingPull, .restartingStreams, .applyingSnapshot, .applyingSeed, .digesting,
            .recordingComparison:
            false
        }
    }
}

/// The read with which a pull goes on after an answer.
enum NextRead {
    /// A part of the pull has asked for something and waits for the answer.
    case wait(for: ReadStep)
    /// Load the streams from the store, and choose by them.
    case loadStreams
    /// List these entities from their beginning again.
    case restart([EntityName])
    /// Read the next page of the listings; when there is none, the feeds.
    case list
    /// Read the feeds of these streams on.
    case pull([StreamPosition])
    /// Compare the next entity with the hub.
    case compare
    /// The cycle goes on in another phase.
    case leave(NextPhase)
}
