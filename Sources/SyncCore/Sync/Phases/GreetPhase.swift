/// Says hello, to learn the hub's history, its limits and what it can do.
package struct GreetPhase: Hashable, Sendable {
    private(set) var call: UInt64?

    mutating func begin(_ state: inout SyncState) -> NextPhase {
        let settings = state.settings, marks = state.marks
        let hello = HelloRequest(
            agent: settings.agent, platform: settings.platform, replica: marks.id, maxSentSeq: marks.maxSentSeq,
            highestAckedSeq: marks.ackedSeq, config: settings.configVersion, entities: settings.entities)
        guard let call = state.send(.hello, CallContent(body: HelloMessages.request(hello))) else { return state.halt() }
        self.call = call
        return .wait
    }

    func handle(_ hello: HelloResponse, _ state: inout SyncState) -> NextPhase {
        if state.isOtherHistory(hello.epoch) { return .heal(to: hello.epoch) }
        if let seen = state.regression(hello.deviceSeq) { return .adoptReplica(seen: seen) }
        state.sizes.recordLimits(hello.limits)
        state.hub.recordHello(hello, at: state.now.instant)
        if !state.hub.namesEntities { state.durable.forgetEntities() }
        state.durable.recordShare(hello)
        return state.memory.epoch == nil ? .learnHistory(hello.epoch) : .settle
    }
}
