import SyncCore
import SyncStore

// Where the server is an existing backend: its answers come as values, and the requests are on flash before they leave.
extension Agent {
    func ask(_ backend: RestClient, _ question: RestQuestion, _ request: HubCall) {
        let sent = environment.time.now().instant
        let (uplink, way, store) = (around.connectivity.uplink, observed.way, store)
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
                // `try?`: what could not be written down must not leave, whatever the reason; the store tells it in status.
                continuation.resume(returning: (try? result.get()) ?? false)
            }
        }
    }

    private func backendAnswered(
        _ request: HubCall, _ reply: RestReply, sent: Instant, over uplink: Uplink?, _ way: ConfigurationTrial.Name?
    ) {
        count(reply.traffic, for: request.kind.purpose, over: uplink)
        if let ends = reply.certificateEndsAt { observed.certificateEndsAt = ends }
        if reply.wasAnswered {
            observed.hubAnsweredAt = environment.time.now().instant
            observed.tlsFault = nil
        }
        if let refusal = reply.refusal {
            if case .transport(let code) = refusal.kind, [.untrusted, .untrustedDate, .clientCertificate].contains(code) {
                observed.tlsFault = .init(code: code, detail: Printable.text(refusal.detail, max: 200))
            }
            if environment.links != nil, let contact = HubContact(refusal) { feed(.contacted(contact)) }
        } else if environment.links != nil {
            feed(.contacted(.answered))
        }
        if reply.wasAnswered, reply.refusal == nil { noteReached(way) }
        handle(.backendAnswered(request.id, reply, sent: sent))
    }
}
