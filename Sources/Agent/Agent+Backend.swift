import LocalAPI
import SyncCore
import SyncStore

// Handles an existing backend: its answers come as values, and the requests are on flash before they leave.
extension Agent {
    func ask(_ backend: RestClient, _ question: RestQuestion, _ request: HubCall) {
        let sent = environment.time.now().instant
        let (uplink, way, store) = (around.connectivity.uplink, trials.way, store)
        call = Task(executorPreference: executor) { [weak self] in
            let reply = await backend.answer(question, over: uplink) { attempt, key in
                await Agent.keep(attempt, of: key, in: store)
            }
            await self?.backendAnswered(request, reply, sent: sent, over: uplink, way)
        }
    }

    private static func keep(_ attempt: RestAttempt, of key: MutationKey, in store: StoreWriter) async -> Bool {
        await withCheckedContinuation { continuation in
            store.run { store, now throws(StoreError) in
                try store.keepAttempt(attempt, of: key, at: now)
            } completion: { result in
                // `try?`: a request that could not be stored must not leave, whatever the reason; the store reports it in status.
                continuation.resume(returning: (try? result.get()) ?? false)
            }
        }
    }

    private func backendAnswered(
        _ request: HubCall, _ reply: RestReply, sent: Instant, over uplink: Uplink?, _ way: ConfigurationTrial.Name?
    ) {
        count(reply.traffic, for: request.kind.purpose, over: uplink)
        if reply.wasAnswered { hubFacts.answered(at: environment.time.now().instant, certificateEndsAt: reply.certificateEndsAt) }
        if let refusal = reply.refusal {
            if environment.links != nil, let contact = HubContact(refusal) { feed(.contacted(contact)) }
        } else if environment.links != nil {
            feed(.contacted(.answered))
        }
        if reply.wasAnswered, reply.refusal == nil { feed(trial: .reached(way)) }
        if case .pulled(let response) = reply.content { reportFutureTimes(of: response.pages) }
        handle(.backendAnswered(request.id, reply, sent: sent))
    }

    /// Reports records that are stamped in the future, while the lists show them.
    private func reportFutureTimes(of pages: [StreamPage]) {
        let code = AlarmCode.backendClock
        let ahead = pages.compactMap { page in page.ahead.map { (page.entity, Printable.text($0, max: 40)) } }
        guard let (entity, time) = ahead.first else {
            let isTold = alarms[code] != nil
            // A page without a future time says nothing about the other pages of its list.
            if isTold, pages.contains(where: { !$0.hasMore }) { alarms.end(code) }
            return
        }
        guard alarms[code] == nil else { return }
        raise(
            code,
            "the backend lists a record of \(entity) that was changed at \(time), which is in the future: lists go on from the "
                + "backend's time of now instead; correct the record, or the clock that stamped it")
    }
}
