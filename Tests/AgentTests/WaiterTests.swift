import Agent
import SyncCore
import Testing

@Suite("Callers that wait")
struct WaiterTests {
    @Test("A cycle serves the callers that came before it; callers that come during it wait for the next")
    func cycles() {
        var waiters = CycleWaiters<String>()
        waiters.add(waiters.nextNumber(), "before")
        waiters.began("one")
        waiters.add(waiters.nextNumber(), "during")
        let none = waiters.ended("another")
        let served = waiters.ended("one")
        let again = waiters.ended("one")
        #expect(none == [] && served == ["before"] && again == [])
        waiters.began("two")
        let next = waiters.ended("two")
        #expect(next == ["during"])
    }

    @Test("Callers of a cycle that was interrupted wait for the one that goes on, with those that came meanwhile")
    func goesOn() {
        var waiters = CycleWaiters<String>()
        waiters.add(waiters.nextNumber(), "before")
        waiters.began("one")
        waiters.add(waiters.nextNumber(), "during")
        waiters.goOn(after: "another")
        waiters.goOn(after: "one")
        let early = waiters.ended("one")
        waiters.began("two")
        let served = waiters.ended("two")
        #expect(early == [] && served == ["before", "during"])
    }

    @Test("Where no cycle can begin, the callers that wait for one to begin get their answer")
    func held() {
        var waiters = CycleWaiters<String>()
        waiters.add(waiters.nextNumber(), "before")
        waiters.began("one")
        waiters.add(waiters.nextNumber(), "first")
        waiters.add(waiters.nextNumber(), "second")
        let held = waiters.leaveWithoutCycle()
        let served = waiters.ended("one")
        #expect(held == ["first", "second"] && served == ["before"])
    }

    @Test("A caller whose time is up is told its cycle, and is served no more")
    func timeIsUp() {
        var waiters = CycleWaiters<String>()
        let (first, second) = (waiters.nextNumber(), waiters.nextNumber())
        waiters.add(first, "first")
        waiters.began("one")
        waiters.add(second, "second")
        let (early, late) = (waiters.leave(first), waiters.leave(second))
        #expect(early?.session == "one" && early?.caller == "first")
        #expect(late != nil && late?.session == nil)
        let (again, served) = (waiters.leave(first), waiters.ended("one"))
        #expect(again == nil && served == [])
    }

    @Test("A mutation's callers are answered when it is settled or needs a person, and wait while the hub may decide")
    func mutations() {
        let (key, second) = (MutationKey(trusted: "m-1"), MutationKey(trusted: "m-2"))
        var waiters = MutationWaiters<String>()
        let (a, b, c) = (waiters.nextNumber(), waiters.nextNumber(), waiters.nextNumber())
        waiters.add(a, "a", for: key)
        waiters.add(b, "b", for: key)
        waiters.add(c, "c", for: second)
        for state in [MutationState.pending, .inFlight] {
            let early = waiters.reached(state, key)
            #expect(early == [])
        }
        let late = waiters.leave(a, key)
        let served = waiters.reached(.conflicted, key)
        let again = waiters.reached(.done, key)
        #expect(late == "a" && served == ["b"] && again == [])
        #expect(Set(waiters.keys) == [second])
        let last = waiters.leave(c, second)
        #expect(last == "c" && waiters.isEmpty)
    }

    @Test("Every state that ends the hub's part, or needs a person, answers", arguments: MutationState.allCases)
    func states(_ state: MutationState) {
        var waiters = MutationWaiters<Int>()
        let key = MutationKey(trusted: "m")
        waiters.add(waiters.nextNumber(), 1, for: key)
        let isAnswered = waiters.reached(state, key) == [1]
        #expect(isAnswered == ![.pending, .inFlight].contains(state))
    }
}
