import SyncCore
import SyncLinux
import Testing

@Suite("Counters of interfaces")
struct InterfaceCountersTests {
    static let table = """
        Inter-|   Receive                                                |  Transmit
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
            lo: 1152625067  662195    0    0    0     0          0         0 1152625067  662195    0    0    0     0       0          0
        eth0:1:   1    2    0    0    0     0          0         0        3     4    0    0    0     0       0          0
          eth0: 55356970    1348    0    0    0     0          0         0    73336     959    0    0    0     0       0          0
         short: 12 13
           odd: x 1 0 0 0 0 0 0 2 1

        """

    @Test(
        "The line of the interface tells both ways; one that is not there or not whole tells nothing",
        arguments: [
            ("eth0", UsageReservation.Bytes(up: 73_336, down: 55_356_970)), ("eth0:1", .init(up: 3, down: 1)), ("eth", nil), ("th0", nil),
            ("short", nil),
            ("odd", nil), ("", nil), ("Inter-|", nil),
        ])
    func line(_ name: String, _ expected: UsageReservation.Bytes?) {
        #expect(InterfaceCounters.carried(by: name, in: Self.table) == expected)
    }

    @Test("The loopback of this machine is there")
    func here() {
        #expect(InterfaceCounters.carried(by: "lo") != nil)
        #expect(InterfaceCounters.carried(by: "nosuch0") == nil)
    }
}
