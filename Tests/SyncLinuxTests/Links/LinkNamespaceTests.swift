import Foundation
import Testing

@Suite(
    "Links in a network namespace", .serialized,
    .disabled(if: NetworkNamespace.obstacle != nil, Comment(rawValue: NetworkNamespace.obstacle ?? "")))
struct LinkNamespaceTests {
    /// Two veths to nowhere, up, each with an address; the hub is behind a default route through the first.
    private func uplinks(in folder: String, _ arguments: [String] = ["198.51.100.9"]) throws -> NetworkNamespace {
        let space = try NetworkNamespace(in: folder, arguments)
        for (number, name) in ["up0", "up1"].enumerated() {
            space.run("ip link add \(name) type veth peer name peer\(number)")
            space.run("ip addr add 10.\(number).0.2/24 dev \(name)")
            space.run("ip link set \(name) up && ip link set peer\(number) up")
        }
        space.run("ip route add default via 10.0.0.1")
        try space.wait(for: "up0 with a route and up1 without") {
            $0.uplink == "up0" && $0.state(of: "up0") == "routed" && $0.state(of: "up1") == "addressed"
        }
        return space
    }

    @Test("The table comes at once, without any change")
    func initial() async throws {
        try await withTemporaryDirectory { folder in
            let table = try NetworkNamespace(in: folder).wait(for: "the first table") { _ in true }
            #expect(table.links.map(\.name) == ["lo"])
            #expect(table.links.map(\.kind) == ["loopback"])
            #expect(table.links.map(\.state) == ["down"])
            #expect(table.uplink == nil)
        }
    }

    @Test("Carrier that goes and comes back is seen, with everything that hangs on it")
    func carrier() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder)
            space.run("ip link set peer0 down")
            try space.wait(for: "up0 without carrier") { $0.state(of: "up0") == "down" && $0.uplink == nil }
            space.run("ip link set peer0 up")
            try space.wait(for: "up0 with carrier again") { $0.state(of: "up0") == "routed" && $0.uplink == "up0" }
        }
    }

    @Test("With its last address a link loses its route, of which the kernel says nothing")
    func address() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder)
            space.run("ip addr add 2001:db8::7/64 dev up1 nodad")
            try space.wait(for: "an IPv6 address") { $0.links.contains { $0.addresses == ["10.1.0.2", "2001:db8::7"] } }
            space.run("ip addr del 10.0.0.2/24 dev up0")
            try space.wait(for: "up0 without an address") { $0.state(of: "up0") == "carrier" && $0.uplink == nil }
        }
    }

    @Test("Before the hub's address is known the default route counts, and a silent end of it is noticed")
    func defaultRoute() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder, [])
            space.run("ip addr del 10.0.0.2/24 dev up0")
            try space.wait(for: "up0 without an address") { $0.state(of: "up0") == "carrier" }
            space.run("ip addr add 10.0.0.2/24 dev up0")
            let table = try space.wait(for: "the address again") { $0.state(of: "up0") != "carrier" }
            #expect(table.state(of: "up0") == "addressed")
            #expect(table.uplink == nil)
            space.run("ip route add default via 10.0.0.1")
            try space.wait(for: "the route again") { $0.uplink == "up0" }
        }
    }

    @Test("The interface of the route to the hub is the uplink, and a swap of the default route moves it")
    func swap() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder)
            space.run("ip route replace default via 10.1.0.1")
            try space.wait(for: "up1 as uplink") { $0.uplink == "up1" }
            // A route of its own to the hub counts more than the default.
            space.run("ip route add 198.51.100.0/24 via 10.0.0.1")
            try space.wait(for: "up0 by a route of its own") { $0.uplink == "up0" }
            space.run("ip route replace unreachable 198.51.100.9")
            try space.wait(for: "no route to the hub") { $0.uplink == nil }
            space.run("echo look 192.0.2.1 >&3")
            try space.wait(for: "another address of the hub") { $0.uplink == "up1" }
        }
    }

    @Test("An interface that is deleted is gone, also as uplink; one of the same name is another")
    func deleted() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder)
            space.run("ip link del up0")
            try space.wait(for: "no up0") { $0.state(of: "up0") == nil && $0.uplink == nil }
            space.run("ip link add up0 type bridge")
            try space.wait(for: "a bridge of that name") { $0.links.contains { $0.name == "up0" && $0.kind == "bridge" } }
        }
    }

    @Test("Twenty flaps in a row end in the table as it is then, and readings are paced")
    func flaps() async throws {
        try await withTemporaryDirectory { folder in
            let space = try uplinks(in: folder)
            space.run("for i in $(seq 20); do ip link set peer0 down; ip link set peer0 up; done")
            space.run("ip route replace default via 10.1.0.1")
            try space.wait(for: "what the last command made") { $0.uplink == "up1" && $0.state(of: "peer0") == "carrier" }
            let counts = try space.counts()
            #expect(counts.readings > 1)
            #expect(counts.dropped == 0)
        }
    }

    @Test("When the kernel's queue overruns, everything is read again and nothing is missed")
    func overrun() async throws {
        try await withTemporaryDirectory { folder in
            let space = try NetworkNamespace(in: folder, ["--buffer", "2304"])
            // Nothing has changed yet, so no reading is owed for another reason.
            try space.wait(for: "the first table") { _ in true }
            // Stopped, the spy cannot empty its queue. It goes on for a moment after the signal was sent.
            space.run("kill -STOP $spy && until grep -q stopped /proc/$spy/status; do sleep 0.01; done")
            space.run("ip link add up0 type veth peer name peer0")
            space.run("for i in $(seq 200); do echo addr add 10.2.$i.1/24 dev up0; done | ip -batch -")
            space.run("ip link add last0 type bridge && kill -CONT $spy")
            let table = try space.wait(for: "the first link") { $0.state(of: "up0") != nil }
            // The table must not be one from the middle: all links were made before the spy continued.
            #expect(table.links.contains { $0.name == "last0" } && table.links.first { $0.name == "up0" }?.addresses.count == 200)
            // The spy may read the question before its queue.
            var asked = 0
            while try space.counts().overruns == 0, asked < 100 { asked += 1 }
            #expect(try space.counts().overruns >= 1)
        }
    }

    @Test(
        "A message that another process sends in the kernel's name is dropped and counted",
        .enabled(if: NetworkNamespace.hasPython, "python3 is missing"))
    func spoofedMessageIsDroppedAndCounted() async throws {
        try await withTemporaryDirectory { folder in
            let space = try NetworkNamespace(in: folder)
            try space.wait(for: "the first table") { _ in true }
            // RTM_NEWLINK for an interface that there is not, to each netlink socket of the spy but our own.
            let script = """
                import socket, struct
                name = b"fake0\\0\\0\\0"
                body = struct.pack("=BxHiII", 0, 1, 77, 0x11043, 0) + struct.pack("=HH", 4 + len(name), 3) + name
                message = struct.pack("=IHHII", 16 + len(body), 16, 0, 0, 0) + body
                own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
                own.bind((0, 0))
                ports = [line.split()[2] for line in open("/proc/net/netlink").readlines()[1:] if line.split()[1] == "0"]
                for port in ports:
                    if int(port) not in (0, own.getsockname()[0]):
                        try: own.sendto(message, (int(port), 0))
                        except OSError: pass
                """
            try script.write(toFile: folder + "/spoof.py", atomically: false, encoding: .utf8)
            space.run("python3 '\(folder)/spoof.py'")
            space.run("ip link add real0 type bridge")
            let table = try space.wait(for: "a link that there is") { $0.state(of: "real0") != nil }
            #expect(table.state(of: "fake0") == nil)
            #expect(try space.counts().dropped >= 1)
        }
    }
}
