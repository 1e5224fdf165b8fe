import SyncCore

/// A kind of commit of a store. A process may die around each.
package enum Commit: String, CaseIterable, Sendable {
    case apps = "an enqueue"
    case claim = "a claim"
    case results = "results"
    case page = "a page"
    case restart = "a restart of streams"
    case replica = "a new replica"
    case listing = "a page of a listing"
    case requeue = "work that is offered again"
    case history = "a new history"
    case aside = "a mutation set aside"
    case memory = "what is remembered"
    case house = "housekeeping"
    /// A decision of an operator, or of an app that takes back its own mutation.
    case decision = "a decision"
    /// A file is added, or its state is saved.
    case files = "the state of a file"
    /// New rules are taken over, and the documents are converted to their schemas.
    case conversion = "a conversion"
    /// A read commits nothing, unless it repairs something.
    case look = "a look"

    init(_ command: StoreCommand) {
        self =
            switch command {
            case .loadInFlight, .loadStreams, .loadSettled, .digest: .look
            case .claim: .claim
            case .applyResults, .applyRest: .results
            case .applyPull: .page
            case .restartStreams, .restartShares: .restart
            case .adoptReplica: .replica
            case .setAside: .aside
            case .remember: .memory
            case .housekeep, .recordComparison: .house
            case .applySnapshot: .listing
            case .requeue: .requeue
            case .forgetHistory: .history
            }
    }

    /// Probability of a death right after the commit; before it, half of that. Rare kinds have a high risk, so that each history meets
    /// some.
    var risk: Double {
        switch self {
        case .apps, .claim, .results, .page, .look, .files: 0.012
        case .memory, .house, .aside, .decision: 0.06
        case .listing: 0.05
        case .restart, .replica, .requeue, .history, .conversion: 0.2
        }
    }
}
