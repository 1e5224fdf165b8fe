/// Waiting work, as a plan sees it.
package struct PlanItem: Hashable, Sendable {
    /// Id of the mutation or file; for a pull, the entity.
    package var id: String
    package var traffic: TrafficClass
    package var bytes: Int
    package var since: Timestamp?
    /// A reason to wait that does not depend on the link: an earlier mutation, a conflict, a file.
    package var blockedBy: Deferral?

    package init(
        id: String, traffic: TrafficClass, bytes: Int, since: Timestamp? = nil, blockedBy: Deferral? = nil
    ) {
        self.id = id
        self.traffic = traffic
        self.bytes = max(0, bytes)
        self.since = since
        self.blockedBy = blockedBy
    }
}

/// The traffic that would be sent in a situation, in order, and the traffic that would wait, with the reasons. A plan sends nothing.
///
/// It asks ``Policy/explain(_:in:now:bytes:since:)``, as the engine does, and deducts every item from the budget before it asks about the
/// next one. Files are sent in pieces, so a part of one may fit.
package struct Plan: Hashable, Sendable {
    package struct Step: Hashable, Sendable {
        package var item: PlanItem
        /// Bytes of the item that would be sent now.
        package var bytes: Int
    }

    package struct Wait: Hashable, Sendable {
        package var item: PlanItem
        /// Bytes of the item that would wait.
        package var bytes: Int
        package var reason: Deferral
        package var sentence: String
        /// The explanation of the policy; `nil`: the item waits for a reason of its own.
        package var explanation: Explanation?
    }

    package private(set) var steps: [Step] = []
    package private(set) var waits: [Wait] = []
    package private(set) var bytes = 0

    /// Bytes of a file that are planned as one step: the first chunk of an upload has as many.
    package static let piece = 256 << 10

    /// - Parameter items: The waiting items in the order in which they were enqueued.
    package init(_ items: [PlanItem], in situation: Situation, now: Timestamp) {
        var situation = situation
        for traffic in Plan.order {
            for item in items where item.traffic == traffic { add(item, &situation, now) }
        }
    }

    /// A cycle pulls, then pushes by priority, then sends files and diagnostics (PROTOCOL G0).
    private static let order: [TrafficClass] = [.pull, .critical, .normal, .bulk, .media, .largeMedia, .diagnostics]

    private mutating func add(_ item: PlanItem, _ situation: inout Situation, _ now: Timestamp) {
        if let deferral = item.blockedBy {
            waits.append(
                Wait(
                    item: item, bytes: item.bytes, reason: deferral,
                    sentence: "\(item.id) waits because \(deferral.reason.sentence)", explanation: nil))
            return
        }
        let isFile = item.traffic == .media || item.traffic == .largeMedia
        var sent = 0
        var obstacle: Explanation?
        repeat {
            let piece = isFile ? min(Plan.piece, item.bytes - sent) : item.bytes
            let answer = Policy.explain(item.traffic, in: situation, now: now, bytes: piece, since: item.since)
            guard case .allow = answer.verdict else {
                obstacle = answer
                break
            }
            situation.spend(piece, item.traffic)
            sent += piece
        } while sent < item.bytes
        if sent > 0 || obstacle == nil { steps.append(Step(item: item, bytes: sent)) }
        bytes = bytes.saturatingAdd(sent)
        guard let obstacle, let deferral = obstacle.deferral else { return }
        waits.append(
            Wait(
                item: item, bytes: item.bytes - sent, reason: deferral, sentence: obstacle.sentence, explanation: obstacle))
    }
}
