package import SyncCore

/// An answer of the hub, or its absence, for the parts of the agent that learn from it.
package struct HubAnswer: Sendable {
    /// The request that was answered.
    package enum Question: Hashable, Sendable {
        /// A request of the engine, and the time that it took.
        case sync(HubCall.Kind, took: Duration)
        /// A pull that could wait for news.
        case wait
        /// The same without an answer of the hub, which says nothing about the hub.
        case cutWait
        /// A request that proves settings on trial.
        case trial
        /// A request of the doctor.
        case look
        case configuration
        /// A request for one record that an app has asked for.
        case record
        case token
        case diagnostics
    }

    /// A part of the agent that learns from answers.
    package enum Observer: Hashable, Sendable {
        /// The byte ledger with its budgets.
        case ledger
        case metrics
        case connectivity
        /// The clock, by the dates of the hub's certificate.
        case clock
        case hubFacts
        case tokenRefresh
        case trials
        case offers
    }

    package let question: Question
    package let result: Result<HTTPResponse, TransportError>
    /// The link that carried the request.
    package let uplink: Uplink?
    /// The settings that the request used; `nil` as long as trials are not stored.
    package let way: ConfigurationTrial.Name?
    package let at: Moment
    /// The header fields of the hub; `nil` without an answer, or with one of another server.
    package let headers: HubHeaders?

    package init(
        _ question: Question, _ result: Result<HTTPResponse, TransportError>, over uplink: Uplink?,
        _ way: ConfigurationTrial.Name? = nil, at now: Moment
    ) {
        self.question = question
        self.result = result
        self.uplink = uplink
        self.way = way
        at = now
        // `try?`: without an answer there are no fields.
        let headers = (try? result.get()).map { HubHeaders(reading: $0.headers, now: now.wall) }
        self.headers = headers.flatMap { $0.version == nil ? nil : $0 }
    }
}

extension HubAnswer.Question {
    /// The parts that learn from the answer, in the order in which they hear of it. The engine comes after all of them.
    package var observers: [HubAnswer.Observer] {
        switch self {
        case .sync: [.ledger, .metrics, .connectivity, .clock, .hubFacts, .tokenRefresh, .trials, .offers]
        // Its time is no measure, and settings on trial are proved by an ordinary request.
        case .wait: [.ledger, .connectivity, .clock, .hubFacts, .tokenRefresh, .offers]
        case .trial: [.ledger, .hubFacts, .tokenRefresh, .trials]
        case .look: [.ledger, .hubFacts, .tokenRefresh]
        case .configuration, .record, .token, .diagnostics, .cutWait: [.ledger]
        }
    }

    /// The purpose of the request in the ledger.
    package var purpose: UsagePurpose {
        switch self {
        case .sync(let kind, _): kind.purpose
        case .wait, .cutWait: .pull
        case .trial, .configuration, .token: .hello
        case .record: .pull
        case .look: .probe
        case .diagnostics: .diagnostics
        }
    }
}

extension HubCall.Kind {
    var purpose: UsagePurpose {
        switch self {
        case .hello: .hello
        case .settle, .known: .settle
        case .pull, .snapshot, .verify: .pull
        case .push: .push
        }
    }
}

extension Result<HTTPResponse, TransportError> {
    /// The cost of the request, answered or not.
    var traffic: Traffic {
        switch self {
        case .success(let response): response.traffic
        case .failure(let error): error.traffic
        }
    }
}

extension Agent {
    /// Passes an answer to the parts that learn from it.
    func observe(_ answer: HubAnswer) {
        for observer in answer.question.observers {
            switch observer {
            case .ledger: count(answer.result.traffic, for: answer.question.purpose, over: answer.uplink)
            case .metrics: metrics.handle(answer)
            case .connectivity: recordContact(answer)
            case .clock: reportCertificateDate(answer)
            case .hubFacts: hubFacts.handle(answer)
            case .tokenRefresh: _ = tokenRefresh.handle(.answered(answer), at: answer.at)
            case .trials: feed(trial: .answered(answer))
            case .offers: offers.handle(answer)
            }
        }
    }
}
