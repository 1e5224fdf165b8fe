import SyncCore
import Testing

@testable import HubServer

@Suite("The list of waiting pulls")
struct WaitingPullsTests {
    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private static func interest(
        _ streams: [(EntityName, [Int64]?)], device: DeviceID = .one, head: Int64 = 5
    ) -> PullInterest {
        PullInterest(
            device: device, sight: HubSight(head: head, frame: ["e-1"]),
            streams: streams.map { PullInterest.Stream(entity: $0.0, scopes: $0.1) })
    }

    private static func list(_ interests: PullInterest..., until: Instant = at(55_000)) -> WaitingPulls {
        var list = WaitingPulls()
        for (index, interest) in interests.enumerated() { #expect(list.add(UInt64(index), interest, until: until) == nil) }
        return list
    }

    @Test("A wait is over at its end and not before, and a pull that was removed is not due")
    func ends() {
        var list = WaitingPulls()
        for (id, end) in [(1, 1_000), (2, 30_050), (3, 1_000)] as [(UInt64, Int64)] {
            #expect(list.add(id, Self.interest([("audits", nil)]), until: Self.at(end)) == nil)
        }
        #expect(list.due(at: Self.at(999)) == [])
        #expect(list.due(at: Self.at(1_000)) == [1, 3])
        list.remove(1)
        #expect(list.due(at: Self.at(30_049)) == [3])
        #expect(list.due(at: Self.at(30_100)) == [3, 2])
        for id in list.all { list.remove(id) }
        #expect(list.isEmpty && list.seen == nil && list.due(at: Self.at(1_000_000)) == [])
    }

    @Test("A device may have four waiting pulls; a fifth takes the place of its oldest, and of no other device's")
    func fifthPullReplacesTheOldestOfItsDevice() {
        var list = WaitingPulls()
        #expect(list.add(100, Self.interest([("audits", nil)], device: .two), until: Self.at(0)) == nil)
        for id in 1...4 as ClosedRange<UInt64> { #expect(list.add(id, Self.interest([("audits", nil)]), until: Self.at(0)) == nil) }
        #expect(list.add(5, Self.interest([("audits", nil)]), until: Self.at(0)) == 1)
        #expect(list.all == [2, 3, 4, 5, 100])
        list.remove(3)
        #expect(list.add(6, Self.interest([("audits", nil)]), until: Self.at(0)) == nil)
    }

    @Test("A change of an entity concerns the pulls that asked for it, and only if they have not seen it")
    func entities() {
        var list = Self.list(Self.interest([("audits", nil)]), Self.interest([("sites", nil)]), Self.interest([("audits", nil)], head: 9))
        var changes = HubChanges()
        changes.entities = ["audits": 8]
        #expect(list.concerned(by: changes, HubSight(head: 9, frame: ["e-1"])) == [0])
        #expect(list.seen?.head == 9)
        changes.entities = ["audits": 10, "sites": 11]
        #expect(list.concerned(by: changes, HubSight(head: 11, frame: ["e-1"])) == [0, 1, 2])
    }

    @Test("Where records are shared out, a change concerns the pulls of the scopes that it touched")
    func scopes() {
        var list = Self.list(
            Self.interest([("orders", [1, 2])]), Self.interest([("orders", [3])], device: .two), Self.interest([("audits", nil)]))
        #expect(list.scopes(of: ["orders"]) == ["orders": [1, 2, 3]])
        #expect(list.scopes(of: []) == [:])
        var changes = HubChanges()
        changes.entities = ["orders": 8]
        changes.scopes = ["orders": [:]]
        #expect(list.concerned(by: changes, HubSight(head: 8)) == [])
        changes.scopes = ["orders": [2: 8]]
        #expect(list.concerned(by: changes, HubSight(head: 8)) == [0])
        changes.mayChangeShares = true
        #expect(list.concerned(by: changes, HubSight(head: 8)) == [0, 1, 2])
    }

    @Test("A change of something that concerns every device hands all of them out")
    func all() {
        var list = Self.list(Self.interest([("audits", nil)]), Self.interest([("sites", nil)]))
        #expect(list.concerned(by: nil, HubSight(head: 5, frame: ["e-2"])) == [0, 1])
    }
}
