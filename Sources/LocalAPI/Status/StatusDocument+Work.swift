package import SyncCore

// The status of the work: whether it flows, and which parts wait and why.
extension StatusDocument {
    /// The policy's verdict on one class of traffic: `critical`, `normal`, `bulk`, `pull`.
    package struct ClassVerdict: Hashable, Sendable {
        package enum Verdict: Hashable, Sendable {
            case allow
            case deferred(reason: String, until: Timestamp?)
        }

        package var name: String
        package var verdict: Verdict

        package init(_ name: String, _ verdict: Verdict) {
            self.name = name
            self.verdict = verdict
        }

        package init(_ why: Explanation) {
            name = why.traffic.name
            verdict = why.deferral.map { .deferred(reason: $0.reason.rawValue, until: why.end) } ?? .allow
        }
    }

    package struct Sync: Hashable, Sendable {
        /// Phase of the cycle: `idle`, `settle`, `pull`, `push`, `waiting`.
        package var phase: String
        package var lastSuccess: Timestamp?
        package var lastError: String?
        package var lastErrorAt: Timestamp?
        /// Time at which the next cycle begins by itself.
        package var nextAt: Timestamp?
        /// Number of failed cycles since the last success.
        package var attempt: Int64
        /// Time until which the hub asked for silence.
        package var notBefore: Timestamp?
        package var pause: EngineMemory.Pause?
        package var isCaughtUp: Bool
        package var firstSync: FirstSync?
        package var clock: Clock?
        package var server: Server?
        /// Number of answers since the start that were not the hub's, or not readable.
        package var badReplies: Int64
        /// State of the breaker: `closed`, `half_open`, or `open` (only a probe is sent, PROTOCOL G3); `nil` when there is none.
        package var breaker: String?
        /// Number of stalled cycles that the watchdog has ended since the start; `nil` when there is no watchdog.
        package var stalls: Int64?
        /// A pull waits at the hub for news, so changes of others come without delay.
        package var isWaitingForNews = false

        package init(
            phase: String = "idle", lastSuccess: Timestamp? = nil, lastError: String? = nil,
            lastErrorAt: Timestamp? = nil, nextAt: Timestamp? = nil, attempt: Int64 = 0, notBefore: Timestamp? = nil,
            pause: EngineMemory.Pause? = nil, isCaughtUp: Bool = false, firstSync: FirstSync? = nil,
            clock: Clock? = nil,
            server: Server? = nil, badReplies: Int64 = 0, breaker: String? = nil, stalls: Int64? = nil
        ) {
            self.phase = phase
            self.lastSuccess = lastSuccess
            self.lastError = lastError
            self.lastErrorAt = lastErrorAt
            self.nextAt = nextAt
            self.attempt = attempt
            self.notBefore = notBefore
            self.pause = pause
            self.isCaughtUp = isCaughtUp
            self.firstSync = firstSync
            self.clock = clock
            self.server = server
            self.badReplies = badReplies
            self.breaker = breaker
            self.stalls = stalls
        }
    }

    package struct FirstSync: Hashable, Sendable {
        /// Phase of the first download: `waiting`, `seeding`, `seeded`, `done`.
        package var phase: String
        package var done: Int64?
        package var total: Int64?

        package init(phase: String, done: Int64? = nil, total: Int64? = nil) {
            self.phase = phase
            self.done = done
            self.total = total
        }
    }

    /// Offset of our wall clock from the hub's.
    package struct Clock: Hashable, Sendable {
        package var offset: Duration
        package var error: Duration
        /// State of the clock: `synced`, `unsynced`, `suspect`.
        package var state: String

        package init(offset: Duration, error: Duration, state: String) {
            self.offset = offset
            self.error = error
            self.state = state
        }
    }

    package struct Server: Hashable, Sendable {
        package var epoch: String?
        package var head: Int64?
        package var syncVersion: Int64?
        /// The scopes and roles of this device; `nil`: the hub knows no scopes.
        package var share: DeviceShare?
        /// The hub has changed them since the hello that told them.
        package var isShareOld = false

        package init(epoch: String? = nil, head: Int64? = nil, syncVersion: Int64? = nil, share: DeviceShare? = nil) {
            self.epoch = epoch
            self.head = head
            self.syncVersion = syncVersion
            self.share = share
        }
    }

    package struct Outbox: Hashable, Sendable {
        /// Numbers of mutations in open and final states; the sum over all of them is ``enqueued``.
        package var counts: [MutationState: Int64]
        /// Numbers of pending mutations by priority.
        package var pending: [Priority: Int64]
        /// Number of all mutations ever accepted by this database.
        package var enqueued: Int64
        /// Age of the oldest mutation that the hub does not have.
        package var oldest: Duration?
        /// Size of the payload that is still to be sent, bytes.
        package var bytes: Int64
        /// Largest number of open mutations.
        package var limit: Int64?
        package var deferred: [Deferral]
        /// Number of open mutations over the last hours; `nil` when the agent stores none.
        package var history: History?

        package struct History: Hashable, Sendable {
            /// Time between two samples.
            package var step: Duration
            /// Time of the last sample.
            package var until: Timestamp
            /// Samples, oldest first.
            package var open: [Int64]

            package init(step: Duration, until: Timestamp, open: [Int64]) {
                self.step = step
                self.until = until
                self.open = open
            }
        }

        package init(
            counts: [MutationState: Int64] = [:], pending: [Priority: Int64] = [:], enqueued: Int64 = 0,
            oldest: Duration? = nil, bytes: Int64 = 0, limit: Int64? = nil, deferred: [Deferral] = []
        ) {
            self.counts = counts
            self.pending = pending
            self.enqueued = enqueued
            self.oldest = oldest
            self.bytes = bytes
            self.limit = limit
            self.deferred = deferred
        }

        package func count(_ state: MutationState) -> Int64 { counts[state] ?? 0 }
        package var open: Int64 { sum(MutationState.allCases.filter { !$0.isTerminal }) }
        package var finished: Int64 { sum(MutationState.allCases.filter(\.isTerminal)) }
        /// `true` when no mutation has vanished: every accepted mutation is in exactly one state.
        package var isBalanced: Bool { open.saturatingAdd(finished) == enqueued }
        /// The sum of some states, limited because an agent may report any number.
        package func sum(_ states: [MutationState]) -> Int64 { states.reduce(0) { $0.saturatingAdd(count($1)) } }
    }

    /// Pending mutations that have to wait for the same reason.
    package struct Deferral: Hashable, Sendable {
        package var priority: Priority
        package var count: Int64
        /// One of the fixed reason codes of the policy.
        package var reason: String
        package var until: Timestamp?
        /// An event that lets them go before that, or without it: it completes "they go …", as in "when an unmetered link is up".
        package var event: String?

        /// - Returns: `nil` when the policy lets them go.
        package init?(_ priority: Priority, count: Int64, _ explanation: Explanation) {
            guard let deferral = explanation.deferral else { return nil }
            self.init(
                priority: priority, count: count, reason: deferral.reason.rawValue, until: explanation.end,
                event: explanation.reliefs.first { $0.isEvent }?.sentence)
        }

        package init(
            priority: Priority, count: Int64, reason: String, until: Timestamp? = nil, event: String? = nil
        ) {
            self.priority = priority
            self.count = count
            self.reason = reason
            self.until = until
            self.event = event
        }
    }

    package struct Attention: Hashable, Sendable {
        /// State: `rejected`, `failed`, `held` or `conflicted`.
        package var state: MutationState
        package var id: String
        package var record: RecordName
        package var problem: Problem?

        package init(state: MutationState, id: String, record: RecordName, problem: Problem?) {
            self.state = state
            self.id = id
            self.record = record
            self.problem = problem
        }
    }

    package struct Entity: Hashable, Sendable {
        package var name: String
        package var kind: String
        package var records: Int64
        /// Number of records whose documents are not kept on this device; not among ``records``.
        package var notKept: Int64
        package var pending: Int64
        /// Time since the last complete pull; `nil` when there was none.
        package var cursorAge: Duration?

        package init(name: String, kind: String, records: Int64, notKept: Int64 = 0, pending: Int64, cursorAge: Duration? = nil) {
            self.notKept = notKept
            self.name = name
            self.kind = kind
            self.records = records
            self.pending = pending
            self.cursorAge = cursorAge
        }
    }

    package struct App: Hashable, Sendable {
        package var app: String
        package var uid: Int64
        package var connections: Int64
        /// Number of open mutations of this app.
        package var open: Int64

        package init(app: String, uid: Int64, connections: Int64, open: Int64) {
            self.app = app
            self.uid = uid
            self.connections = connections
            self.open = open
        }
    }

    package struct Usage: Hashable, Sendable {
        package var up: Int64
        package var down: Int64

        package init(up: Int64, down: Int64) {
            self.up = up
            self.down = down
        }
    }
}
