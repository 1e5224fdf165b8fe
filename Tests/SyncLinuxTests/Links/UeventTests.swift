import Foundation
import SyncCore
import SyncLinux
import Synchronization
import Testing

@Suite("Kernel events of devices")
struct UeventTests {
    /// The message of the kernel when a charger is plugged in.
    static let charger = message([
        "change@/devices/LNXSYSTM:00/ACPI0003:00/power_supply/AC", "ACTION=change",
        "DEVPATH=/devices/LNXSYSTM:00/ACPI0003:00/power_supply/AC", "SUBSYSTEM=power_supply", "POWER_SUPPLY_NAME=AC",
        "POWER_SUPPLY_ONLINE=1", "SEQNUM=4711",
    ])

    static func message(_ lines: [String]) -> [UInt8] { lines.flatMap { Array($0.utf8) + [0] } }

    @Test("Action and subsystem are read")
    func reading() throws {
        let event = try #require(Uevent(Self.charger[...]))
        #expect(event.action == "change")
        #expect(event.subsystem == "power_supply")
    }

    @Test(
        "Other bytes are not read as a message",
        arguments: [
            [], ["libudev"], ["change@/x"], ["change@/x", "ACTION=change"], ["change@/x", "SUBSYSTEM=net"],
            ["change@/x", "ACTION=add", "SUBSYSTEM=net"], ["ACTION=change", "SUBSYSTEM=net"], ["change@/x", "ACTION=change", "SUBSYSTEM="],
            ["change/x", "ACTION=change", "SUBSYSTEM=net"],
        ])
    func otherBytesAreNoMessage(_ lines: [String]) {
        #expect(Uevent(Self.message(lines)[...]) == nil)
    }

    @Test("Every beginning, and bytes changed, are read without harm")
    func hostile() {
        for count in 0...Self.charger.count { _ = Uevent(Self.charger[..<count]) }
        var random = SeededRandom(seed: 11)
        var found = 0
        for _ in 0..<5_000 {
            var bytes = Self.charger
            for _ in 0..<3 { bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random) }
            if Uevent(bytes[...]) != nil { found += 1 }
        }
        #expect(found > 0)
    }

    /// Writing to the uevent file of a device makes the kernel send an event; it takes root in the machine's own namespaces.
    static let canTrigger: Bool = geteuid() == 0 && access("/sys/devices/virtual/net/lo/uevent", W_OK) == 0

    @Test(
        "An event of a watched subsystem is heard, one of another is not",
        .enabled(if: canTrigger, "needs root and a writable sysfs"))
    func heard() async throws {
        // The first call tells that it listens, and comes without an event.
        let (begun, othersBegun, heard) = (Gate(), Gate(), Gate())
        let count = Mutex(0), others = Mutex(0)
        let power = try UeventMonitor {
            others.withLock { $0 += 1 }
            othersBegun.open()
        }
        let monitor = try UeventMonitor(subsystems: ["net"]) {
            let calls = count.withLock { count in
                count += 1
                return count
            }
            if calls == 1 { begun.open() } else { heard.open() }
        }
        await begun.pass()
        await othersBegun.pass()
        try Data("change".utf8).write(to: URL(fileURLWithPath: "/sys/devices/virtual/net/lo/uevent"))
        await heard.pass()
        monitor.stop()
        power.stop()
        #expect(count.withLock { $0 } >= 2)
        #expect(others.withLock { $0 } == 1)
    }
}

@Suite("Without the kernel's word")
struct UnheardPowerTests {
    @Test("Where no event can be heard, it is looked again and again")
    func everySoOften() async throws {
        let looks = Mutex(0)
        let enough = Gate()
        let monitor = try UeventMonitor(every: .milliseconds(1)) {
            let count = looks.withLock { count in
                count += 1
                return count
            }
            if count == 3 { enough.open() }
        }
        await enough.pass()
        monitor.stop()
        let count = looks.withLock { $0 }
        #expect(count >= 3)
    }
}

@Suite("Addresses of the hub")
struct HubResolverTests {
    @Test("A literal address is its own answer, at once", arguments: [("192.0.2.1", "192.0.2.1"), ("2001:DB8:0::1", "2001:db8::1")])
    func literal(_ host: String, _ address: String) throws {
        let resolver = try HubResolver(host: host)
        let answer = Mutex<[String]>([])
        resolver.resolve { result in answer.withLock { $0 = (try? result.get()) ?? ["none"] } }
        #expect(answer.withLock { $0 } == [address])
        #expect(resolver.isLiteral)
    }

    @Test("A name is resolved on another thread; questions that wait are all answered")
    func name() async throws {
        let resolver = try HubResolver(host: "localhost")
        #expect(!resolver.isLiteral)
        for _ in 0..<3 {
            let addresses: [String] = await withCheckedContinuation { continuation in
                resolver.resolve { result in continuation.resume(returning: (try? result.get()) ?? []) }
            }
            #expect(addresses.contains("127.0.0.1") || addresses.contains("::1"))
        }
    }

    @Test("An unknown name is an error that names it")
    func unknown() async throws {
        // ".invalid" never exists (RFC 6761), whether a name server is there or not.
        let resolver = try HubResolver(host: "hub.invalid")
        let result: HubResolver.Answer = await withCheckedContinuation { continuation in
            resolver.resolve { continuation.resume(returning: $0) }
        }
        guard case .failure(let error) = result else {
            Issue.record("resolved: \(result)")
            return
        }
        #expect("\(error)".hasPrefix("resolve hub.invalid: "))
    }
}
