import LocalAPI
import SyncCore
import SyncStore

// `why` and `plan`: they ask the policy, and send nothing.
extension Agent {
    /// Largest number of mutations in a plan; an outbox may hold no more by default.
    private static let planMax = 100_000

    func showWhy(_ call: LocalCall, _ key: MutationKey) {
        let (situation, place, peer) = (presentSituation, hubPlace, call.peer)
        let note = situationNote(situation)
        read(call) { reads, now throws(StoreError) -> WhyAnswer? in
            guard let mutation = try reads.mutation(key, at: now), peer.allows(mutation.record.entity) else { return nil }
            let obstacle = try reads.obstacle(to: key, at: now)
            return WhyAnswer(mutation, obstacle, in: situation, at: place, note, now: now.wall)
        } answer: { answer in
            answer?.answer ?? LocalProblem.notFound("there is no mutation \(key)", list: "agentctl mutations list").localAnswer
        }
    }

    func showPlan(_ call: LocalCall) throws(Problem) {
        let body = try PlanBody.read(call.body)
        let (situation, power) = hypothesis(body)
        let place = hubPlace
        let note = situationNote(situation, percent: power)
        let large = loaded.configuration.blobs.largeBytes
        read(call, isLong: true) { reads, now throws(StoreError) in
            var items = [PlanItem(id: "pull", traffic: .pull, bytes: 0)]
            for waiting in try reads.waiting(limit: Self.planMax, at: now) {
                items.append(
                    PlanItem(
                        id: waiting.key.text, traffic: TrafficClass(waiting.priority), bytes: waiting.bytes,
                        since: waiting.createdAt, blockedBy: waiting.blockedBy))
            }
            for job in try reads.waitingBlobs(limit: 10_000) {
                items.append(
                    PlanItem(
                        id: job.id.description, traffic: job.traffic(large: large), bytes: Int(clamping: job.remaining),
                        since: job.createdAt))
            }
            for job in try reads.wantedBlobs(limit: 10_000) {
                items.append(
                    PlanItem(
                        id: job.id.description, traffic: job.traffic(large: large), bytes: Int(clamping: job.remaining),
                        since: job.wantedAt))
            }
            let plan = Plan(items, in: situation, now: now.wall)
            return PlanAnswer(plan, at: place, situation: note)
        } answer: {
            $0.answer
        }
    }

    /// The inputs of the policy, with the fault of the last attempt at the hub: all explanations for people come from this.
    var presentSituation: Situation {
        var situation = engine.situation
        situation.fault = around.reachability.fault
        return situation
    }

    /// Explains why mutations of one priority go or wait. The class may go while some of it is too large for the rest of a budget.
    ///
    /// - Returns: The explanation, and the number of mutations that wait; `nil`: all of them, or none.
    func explanation(of priority: Priority, in situation: Situation, now: Timestamp) -> (Explanation, count: Int?) {
        let why = Policy.explain(TrafficClass(priority), in: situation, now: now)
        guard why.deferral == nil, let withheld = engine.withheld.classes[priority] else { return (why, nil) }
        return (Policy.explain(TrafficClass(priority), in: situation, now: now, bytes: withheld.smallest), withheld.count)
    }

    /// The reason why waiting work is not sent, or, without waiting work, would not be sent.
    func presentCause(in situation: Situation, waiting: Set<Priority>, now: Timestamp) -> PresentCause? {
        let asked = waiting.isEmpty ? [.critical] : waiting.sorted()
        return asked.lazy.compactMap { PresentCause(self.explanation(of: $0, in: situation, now: now).0, at: self.hubPlace) }.first
    }

    /// The present situation with the caller's assumptions.
    private func hypothesis(_ body: PlanBody) -> (Situation, Int64?) {
        let configuration = loaded.configuration
        let now = environment.time.now()
        var situation = presentSituation
        var percent = around.power.state.percent.map(Int64.init)
        if let isOnline = body.isOnline {
            situation.reachability = isOnline ? .online : .offline
            if isOnline { (situation.retryAt, situation.isBreakerOpen, situation.fault) = (nil, false, nil) }
        }
        if let name = body.link?.text {
            let known = around.connectivity.links.first { $0.name == name }
            let rule = configuration.links.rule(for: name)
            situation.uplink = Uplink(
                name: name, isMetered: known?.cost.isMetered ?? rule?.metered ?? false,
                isRoaming: known?.cost.isRoaming ?? false, bytesPerSecond: rule?.bytesPerSecond)
            if body.isOnline == nil { (situation.reachability, situation.fault) = (.online, nil) }
        }
        if body.isMetered != nil || body.isRoaming != nil {
            var uplink = situation.uplink ?? Uplink(name: "any")
            uplink.isMetered = body.isMetered ?? uplink.isMetered
            uplink.isRoaming = body.isRoaming ?? uplink.isRoaming
            situation.uplink = uplink
        }
        if let uplink = situation.uplink {
            situation.budgets = around.book.budgets(
                of: uplink.name, configuration.budget(of: uplink), isRoaming: uplink.isRoaming, at: now)
        }
        if let left = body.budgetBytes {
            situation.budgets = [Budget(limit: Int(clamping: left))]
        }
        if body.batteryPercent != nil || body.isCharging != nil {
            let isCharging = body.isCharging ?? (body.batteryPercent == nil)
            percent = body.batteryPercent ?? percent
            let state = PowerState(source: isCharging ? .mains : .battery, percent: percent.map { Int($0) })
            situation.power = PowerLevel.ample.next(state, configuration.powerThresholds)
        }
        return (situation, percent)
    }

    private func situationNote(_ situation: Situation, percent: Int64? = nil) -> SituationNote {
        SituationNote(
            situation, batteryPercent: percent ?? around.power.state.percent.map(Int64.init),
            now: environment.time.now().wall)
    }
}

extension WhyAnswer {
    init(
        _ mutation: MutationSnapshot, _ obstacle: Obstacle?, in situation: Situation, at place: HubPlace, _ note: SituationNote,
        now: Timestamp
    ) {
        let (id, record, state) = (mutation.key.text, mutation.record, mutation.state.name)
        if let verdict = Verdict(mutation.state) {
            let problem = mutation.problem.map { ": \($0.detail.isEmpty ? $0.code : $0.detail)" } ?? ""
            let sentence: String
            var (relief, command): ([String], String?) = ([], nil)
            let parent = mutation.problem?.members["parent"]?.text
            // A member of an atomic list goes with the others or not at all.
            let retry = "agentctl mutations retry \(id)" + (mutation.group == nil ? "" : " --cascade")
            switch mutation.state {
            case .inFlight: sentence = "the agent has tried to send it, and the hub has not answered; the next cycle asks about it first"
            case .done: sentence = "it is at the hub"
            case .coalesced:
                sentence =
                    "it goes as a part of \(mutation.into?.text ?? "an earlier mutation") of the same record, which is "
                    + mutation.presentState.name
            case .rejected where mutation.problem?.code == Problem.revoked:
                sentence = "its record left the share of this device before it was sent, so it is kept here with its content"
                relief = ["when the record is in the share again, by a new grant at the server, and the change is retried"]
                command = retry
            case .rejected where mutation.problem?.code == Problem.forbidden:
                sentence = "the hub refused it because this device may not make this change\(problem)"
                relief = [
                    "when an operator of the server has given this device the right, and the change is retried",
                    "when it is retried with values that this device may write (--data)",
                ]
                command = retry
            case .rejected where mutation.problem?.code == Problem.groupRejected:
                sentence = "it goes with the rest of its atomic list or not at all\(problem)"
                relief = ["when the whole list is retried"]
                command = retry
            case .rejected where parent != nil:
                sentence = "it was to go after another change, which did not go\(problem)"
                relief = ["when that change is retried with --cascade, or this one after it"]
                command = parent.map { "agentctl why \($0)" }
            case .rejected: sentence = "the hub refused it\(problem)"
            case .failed: sentence = "it was set aside because it keeps failing alone\(problem)"
            case .held: sentence = "it was set aside until a person decides\(problem)"
            case .conflicted: sentence = "its record has a conflict that a person must resolve\(problem)"
            case .expired: sentence = "its time to live ran out before it could be sent"
            case .pending, .cancelled, .discarded, .resolved, .superseded: sentence = "it is settled: \(state)"
            }
            self.init(
                id: id, record: record, state: state, verdict: verdict, reason: mutation.problem?.code, sentence: sentence,
                wouldChange: relief, command: command, situation: note)
            return
        }
        if let end = mutation.expiresAt, end <= now {
            self.init(
                id: id, record: record, state: state, verdict: .settled, reason: MutationState.expired.name, expiresAt: end,
                sentence: "its time to live was over at \(end): it is not sent any more, and expires with the next housekeeping",
                situation: note)
            return
        }
        defer { expiresAt = mutation.expiresAt }
        switch obstacle {
        case .order(let earlier, .conflicted)?:
            self.init(
                id: id, record: record, state: state, verdict: .defer, reason: Deferral.Reason.conflict.rawValue,
                sentence: "it waits because \(earlier), an earlier mutation of its record, is in a conflict",
                wouldChange: ["when that conflict is resolved"], command: "agentctl conflicts list", situation: note)
        case .order(let earlier, let other)?:
            self.init(
                id: id, record: record, state: state, verdict: .defer, reason: Deferral.Reason.order.rawValue,
                sentence: "it waits because \(earlier), an earlier mutation of its record, must go first and is \(other.name)",
                wouldChange: ["when that one is settled"], command: "agentctl why \(earlier)", situation: note)
        case .dependency(let other, let otherState)?:
            self.init(
                id: id, record: record, state: state, verdict: .defer, reason: Deferral.Reason.dependency.rawValue,
                sentence: "it waits because it depends on \(other), which must go first and is \(otherState.name)",
                wouldChange: ["when that one is settled"], command: "agentctl why \(other)", situation: note)
        case .blob(let blob)?:
            self.init(
                id: id, record: record, state: state, verdict: .defer, reason: Deferral.Reason.blobWait.rawValue,
                sentence: "it waits because the file \(blob), which it shows, must be at the server first",
                wouldChange: ["when that is uploaded"], command: "agentctl why \(blob)", situation: note)
        case .retry(let until)?:
            self.init(
                id: id, record: record, state: state, verdict: .defer, reason: Deferral.Reason.backoff.rawValue,
                until: until, sentence: "it waits because the hub asked to try it again later", situation: note)
        case nil:
            let why = Policy.explain(
                TrafficClass(mutation.priority), in: situation, now: now, bytes: mutation.bytes, since: mutation.createdAt)
            self.init(id: id, record: record, why, at: place, situation: note)
        }
    }
}
