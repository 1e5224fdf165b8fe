import Agent
import SyncCore
import Testing

@Suite("Answers of the hub")
struct HubAnswerTests {
    private static let sync = HubAnswer.Question.sync(.pull, took: .seconds(1))
    private static let questions: [HubAnswer.Question] = [sync, .trial, .look, .configuration, .record, .token, .diagnostics]
    private let now = Moment(instant: Instant(nanoseconds: 5), wall: Timestamp(milliseconds: 1_800_000_000_000))

    @Test("The ledger counts every answer first, and only the engine's requests reach all parts", arguments: questions)
    func observers(_ question: HubAnswer.Question) {
        let observers = question.observers
        #expect(observers.first == .ledger)
        #expect(Set(observers).count == observers.count)
        // The order is that of the engine's requests.
        #expect(observers == Self.sync.observers.filter(observers.contains))
        #expect(observers.contains(.offers) == (question == Self.sync))
    }

    @Test("A request for itself proves no settings and offers none; a request on trial proves settings")
    func trial() {
        let proving = Self.questions.filter { $0.observers.contains(.trials) }
        #expect(proving == [Self.sync, .trial])
        let informing = Self.questions.filter { $0.observers.contains(.hubFacts) }
        #expect(informing == [Self.sync, .trial, .look])
    }

    @Test("Each request has its purpose in the ledger")
    func purposes() {
        let purposes = [HubCall.Kind.hello, .pull, .snapshot, .verify, .push, .settle, .known].map {
            HubAnswer.Question.sync($0, took: .zero).purpose
        }
        #expect(purposes == [.hello, .pull, .pull, .pull, .push, .settle, .settle])
        #expect(Self.questions.dropFirst().map(\.purpose) == [.hello, .probe, .hello, .pull, .hello, .diagnostics])
    }

    @Test("An answer without the version of the protocol is another server's: its fields count for nothing")
    func foreign() {
        let own = HTTPResponse(status: 200, headers: ["Sync-Version": "1", "Sync-Epoch": "e1", "Sync-Config": "7"])
        let headers = HubAnswer(.trial, .success(own), over: nil, at: now).headers
        #expect(headers?.epoch == "e1" && headers?.config == 7)
        let foreign = HTTPResponse(status: 200, headers: ["Sync-Epoch": "e1", "Sync-Config": "7"])
        #expect(HubAnswer(.trial, .success(foreign), over: nil, at: now).headers == nil)
        let none = TransportError(.timedOut, doing: "ask", detail: "late")
        #expect(HubAnswer(.trial, .failure(none), over: nil, at: now).headers == nil)
    }
}
