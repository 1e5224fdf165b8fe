import Agent
import Testing

struct ConfigurationStateTests {
    @Test("The last good copy is told until the files are accepted and nothing of them waits for a restart")
    func lastGood() {
        var state = ConfigurationState()
        state.startedFromLastGood("hub.url is missing")
        #expect(state.isLastGood && state.error == "hub.url is missing")
        let waiting = state.accepted(needsRestart: ["socket"])
        #expect(!waiting && state.isLastGood && state.error == nil && state.restartNeeded == ["socket"])
        let over = state.accepted(needsRestart: [])
        let again = state.accepted(needsRestart: [])
        #expect(over && !again && !state.isLastGood && state.restartNeeded.isEmpty)
    }

    @Test("A refused configuration leaves the number of the one in force; each accepted one gets the next")
    func versions() {
        var state = ConfigurationState()
        state.refused("sync.pull_interval is no duration")
        #expect(state.version == 1 && state.error != nil)
        state.acceptedOffer()
        #expect(state.version == 2 && state.error == nil)
        state.changed()
        #expect(state.version == 3)
    }
}
