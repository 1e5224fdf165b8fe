import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

// Records whose documents are not kept on this device, fetched from the hub because an app or a person asks (PROTOCOL B3).
extension Agent {
    /// Reads a record, and asks the hub for its document if that is not kept here.
    func fetchRecord(_ call: LocalCall, _ name: RecordName, _ view: RecordView) throws(Problem) {
        try call.checkEntity(name.entity)
        fromReader(for: call) { reads, _ throws(StoreError) -> Bool in
            try reads.record(name)?.isNotKept ?? false
        } then: { (agent: isolated Agent, isNotKept: Bool) in
            do throws(Problem) {
                guard isNotKept else { return try agent.readRecord(call, name, view) }
                try agent.checkHubCanBeAsked()
                let fetch = RecordFetch(name, epoch: agent.engine.memory.epoch, schemas: agent.engine.settings.schemas)
                agent.ask(fetch, for: call, name, view)
            } catch {
                agent.refuseFetch(call, error)
            }
        }
    }

    /// The request is small and an app waits for it, so it goes when critical work may go.
    private func checkHubCanBeAsked() throws(Problem) {
        guard backend == nil else { throw Self.unavailable("no hub is configured") }
        let now = environment.time.now().wall
        guard case .defer(let deferral) = engine.verdict(on: .critical, now: now) else { return }
        let wait = deferral.until.map { max(1, Int(clamping: (now.duration(to: $0).milliseconds + 999) / 1_000)) }
        throw Self.unavailable(deferral.reason.sentence, retryAfter: wait)
    }

    private func refuseFetch(_ call: LocalCall, _ problem: Problem) {
        metrics.refused(problem.code)
        call.refuse(problem)
    }

    private static func unavailable(_ why: String, retryAfter: Int? = nil) -> Problem {
        LocalProblem.hubUnavailable.problem("the hub cannot be asked for the record: \(why)", retryAfter: retryAfter)
    }

    private func ask(_ fetch: RecordFetch, for call: LocalCall, _ name: RecordName, _ view: RecordView) {
        let (hub, replica, uplink) = (hub, engine.replica, around.connectivity.uplink)
        Task(executorPreference: executor) { [weak self] in
            let result = await hub.list(fetch.request, epoch: fetch.epoch, schemas: fetch.schemas, replica: replica, over: uplink)
            await self?.answered(result, fetch, over: uplink, for: call, name, view)
        }
    }

    private func answered(
        _ result: Result<HTTPResponse, TransportError>, _ fetch: RecordFetch, over uplink: Uplink?, for call: LocalCall,
        _ name: RecordName, _ view: RecordView
    ) {
        let answer = HubAnswer(.record, result, over: uplink, at: environment.time.now())
        observe(answer)
        switch result {
        case .failure(let error): refuseFetch(call, Self.unavailable(Printable.text(error.description)))
        case .success(let response):
            switch fetch.handle(HubReply.read(response, now: answer.at.wall)) {
            case .found(let record):
                // The versions of this device may belong to another history by now, or be on the way to one.
                guard engine.memory.epoch == fetch.epoch, engine.memory.healing == nil else {
                    return refuseFetch(call, Self.unavailable("its database was restored or made anew, and this device must sync first"))
                }
                guard engine.settings.schemas == fetch.schemas else {
                    return refuseFetch(call, Self.unavailable("its schema has just changed; ask again"))
                }
                bringBack(record, for: call, name, view)
            case .absent: refuseFetch(call, LocalProblem.notFound.problem("the hub has no record \(name) for this device"))
            case .failed(let why): refuseFetch(call, Self.unavailable(Printable.text(why)))
            }
        }
    }

    private func bringBack(_ record: StreamPage.Record, for call: LocalCall, _ name: RecordName, _ view: RecordView) {
        let app: AppView
        do throws(Problem) {
            app = try AppSchemas(call.exchange.request, loaded.configuration.rules).view(of: name.entity)
        } catch {
            return refuseFetch(call, error)
        }
        fromStore(for: call) { store, now throws(StoreError) -> RecordSnapshot? in
            try store.bringBack(record, of: name.entity, at: now)
            let shape = try app.over(store.reads)
            return try store.reads.record(name).map { shape.lower($0) }
        } then: { (agent: isolated Agent, shown: RecordSnapshot?) in
            // The record has left the share of this device meanwhile.
            guard let shown else { return agent.refuseFetch(call, LocalProblem.notFound.problem("there is no record \(name)")) }
            guard !shown.isNotKept else {
                let why =
                    shown.status == .synced
                    ? "it shows an older state than this device has seen"
                    : "a change of it is open or was refused; settle that first: agentctl rejected"
                return agent.refuseFetch(call, Self.unavailable(why))
            }
            agent.events.sendNew()
            call.answer(RecordAnswer.answer(shown, view: view))
        }
    }
}
