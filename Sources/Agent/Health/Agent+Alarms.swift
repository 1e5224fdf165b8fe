import LocalAPI
import Logging
import SyncCore
import SyncStore

// Alarms for people: raised, shown in status and by the doctor, and acknowledged.
extension Agent {
    func raise(_ code: AlarmCode, _ detail: String) {
        let now = environment.time.now()
        let isToBeStored = alarms.raise(code, detail, at: now.wall)
        diagnostics.handle(.raised, at: now.instant)
        log.warning("attention", metadata: ["code": "\(code.rawValue)", "detail": "\(detail)"])
        journal(.attention, EventPayload.attention(code: code.rawValue, detail: detail))
        if isToBeStored { keepAlarms() }
    }

    /// Raises an alarm, unless it is raised with the same sentence.
    func raiseIfNew(_ code: AlarmCode, _ detail: String) {
        if alarms[code] != detail { raise(code, detail) }
    }

    /// Restores alarms of earlier runs that were not acknowledged.
    func restoreAlarms(_ text: String?) {
        guard let text else { return }
        guard let earlier = AlarmHistory(text: text) else {
            return log.warning("the stored alarms cannot be read and are dropped")
        }
        if alarms.add(earlier) { keepAlarms() }
    }

    func acknowledgeAlarms(_ call: LocalCall) throws(Problem) {
        let body = try AcknowledgeBody.read(call.body)
        let code = body.code.flatMap { AlarmCode(rawValue: $0) }
        // A code that is not known names no alarm.
        let gone = body.code != nil && code == nil ? [] : alarms.acknowledge(code).map(\.rawValue)
        if let name = body.code, gone.isEmpty {
            let isPresent = code.flatMap { alarms[$0] } != nil
            let why = isPresent ? "the alarm \(name) is not over; it ends with its cause" : "there is no alarm \(name)"
            throw LocalProblem.notFound(why, list: "agentctl status")
        }
        log.notice("alarms acknowledged", metadata: ["codes": "\(gone.joined(separator: ","))", "uid": "\(call.peer.uid)"])
        for code in gone { audit("acknowledge", code, uid: call.peer.uid) }
        let text = alarms.text
        fromStore(for: call) { store, now throws(StoreError) in
            try store.keep(text, as: .alarms, at: now)
        } then: { _, _ in
            call.answer(AcknowledgeAnswer(codes: gone).answer)
        }
    }

    /// Past alarms, oldest first.
    var pastAlarms: [StatusDocument.Alarm] {
        alarms.past.map { .init(code: $0.code.rawValue, detail: $0.detail, at: $0.at) }
    }

    private func keepAlarms() {
        keep(alarms.text, as: .alarms, loss: "an alarm was not stored; a restart forgets it")
    }
}
