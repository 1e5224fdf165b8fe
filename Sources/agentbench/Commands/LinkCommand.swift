import ArgumentParser
import BenchKit
import CBenchFloors
import LocalAPI
import SyncCore

/// Measures the waiting times on a slow link: for own changes to reach the hub, for changes of others to arrive, and for apps while a sync
/// runs.
struct LinkCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "link",
        abstract: "Measures a push of 50, a pull of 500, the way back online and enqueueing meanwhile over a link of 50 ms and 10 Mbit/s.",
        discussion: """
            Each packet takes 50 ms one way, and 10 Mbit/s go each way; the hub speaks TLS. Floor of push and pull: a round trip \
            for TCP and a TLS handshake over the same link. Floor of the enqueue times: the same agent, offline. \
            Requires iproute2, openssl, /dev/net/tun, and root or unprivileged user namespaces; otherwise it is skipped.
            """)

    @OptionGroup var shared: SharedOptions

    private static let slowness = CabledHub.Slowness(delay: .milliseconds(50), bitsPerSecond: 10_000_000)
    /// Number of waiting mutations during the measurement: enough that the sync outlasts it, which is checked.
    private static let backlog = 60_000
    private static let one = Producers(wanted: 1)

    func run() throws {
        if let obstacle = CabledHub.moveIn() { return Talk.say("skipped: \(obstacle)") }
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        var report = Report(command: "link", workplace: workplace)
        report.note(
            "Push and pull begin when they are asked for, on a connection that is made for them, and end when nothing waits any more, "
                + "or all is in the mirror. Enqueueing is one producer with one record a request.")

        let handshake = "TCP and TLS handshake"
        var push = Figure(id: "link_push_50", title: "push of 50", unit: .microseconds, floor: handshake, goal: .below(1_000_000))
        var pull = Figure(id: "link_pull_500", title: "pull of 500", unit: .microseconds, floor: handshake, goal: .below(2_000_000))
        var pushing = Figure(
            id: "enqueue_p99_pushing", title: "enqueue p99 while it pushes", unit: .microseconds, floor: "offline",
            goal: .atMost(3))
        var pulling = Figure(
            id: "enqueue_p99_pulling", title: "enqueue p99 while it pulls", unit: .microseconds, floor: "offline",
            goal: .atMost(3))
        var online = Figure(
            id: "link_idle_online", title: "idle: usable link to online", unit: .microseconds, floor: handshake, goal: .below(1_000_000))
        for round in 1...shared.roundCount(full: 5) {
            Talk.say("round \(round)")
            let hub = try CabledHub(
                agenthub: shared.agenthub, in: workplace.folder("hub"), isHeard: false, devices: ["bench", "reader"],
                slowness: Self.slowness)
            defer { hub.stop() }
            let floor = try hub.handshake() / 1_000
            let times = try measure(hub, workplace)
            push.add(floor: floor, agent: times.push)
            pull.add(floor: floor, agent: times.pull)
            online.add(floor: floor, agent: times.online)
            pushing.add(floor: times.idle, agent: times.pushing)
            pulling.add(floor: times.idle, agent: times.pulling)
        }
        report.figures = [push, pull, online, pushing, pulling]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    /// Durations in microseconds.
    private struct Times {
        var push = 0.0, pull = 0.0, online = 0.0
        /// The p99 of enqueueing.
        var idle = 0.0, pushing = 0.0, pulling = 0.0
    }

    private func measure(_ hub: CabledHub, _ workplace: Workplace) throws -> Times {
        var times = Times()
        let reader = try agent("reader", hub, workplace)
        defer { reader.stop() }
        let writer = try agent("bench", hub, workplace)
        defer { writer.stop() }
        try reader.explaining {
            try completeFirstContact(reader)
            try pause(reader)
        }
        try writer.explaining {
            // The first contact transfers more, so it is made before the measurement.
            try completeFirstContact(writer)
            try pause(writer)
            try bring(50, from: writer, firstRow: 0)
            times.push = try time(writer) { $0.outbox.open == 0 }
            try pause(writer)
            times.online = try comeBack(writer, hub)
            try bring(450, from: writer, firstRow: 50)
            _ = try time(writer) { $0.outbox.open == 0 }
        }
        try reader.explaining { times.pull = try time(reader) { Self.records($0) >= 500 } }
        try reader.explaining { try pause(reader) }
        try writer.explaining {
            try pause(writer)
            times.idle = try enqueueing(writer, firstRow: 1_000)
            // Events first, and the records of the producer in between: all of them must go over the link.
            try bring(Self.backlog, from: writer, firstRow: 10_000)
            try resume(writer)
            times.pushing = try enqueueing(writer, firstRow: 4_000)
            guard try writer.outbox().open > 1_000 else { throw BenchError("the push had ended before the enqueueing had") }
            try writer.wait(seconds: 300) { $0.outbox.open == 0 }
        }
        try reader.explaining {
            try resume(reader)
            try reader.call("POST", "/v1/sync", body: #"{"scope":"all","force":true}"#)
            try reader.wait { Self.records($0) > 1_000 }
            times.pulling = try enqueueing(reader, firstRow: 200_000)
            guard Self.records(try reader.status()) < Self.backlog else {
                throw BenchError("the pull had ended before the enqueueing had")
            }
        }
        return times
    }

    private func agent(_ device: String, _ hub: CabledHub, _ workplace: Workplace) throws -> AgentUnderTest {
        try AgentUnderTest(
            program: shared.agentd, in: workplace.folder(device), device: device, hubURL: hub.url, token: hub.tokens[device] ?? "",
            issuer: hub.certificate, producers: Self.one, settings: "links: [{ match: \"*\", metered: false }]\n")
    }

    /// Lets the agent make its first contact, and waits for its end.
    private func completeFirstContact(_ agent: AgentUnderTest) throws {
        try agent.wait { $0.connectivity.state == "online" }
        try agent.call("POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#)
        try agent.wait { $0.outbox.open == 0 }
    }

    private func pause(_ agent: AgentUnderTest) throws { try agent.call("POST", "/v1/pause", body: #"{"scope":"all"}"#) }

    private func resume(_ agent: AgentUnderTest) throws { try agent.call("POST", "/v1/resume", body: #"{"scope":"all"}"#) }

    /// Microseconds from a usable link to the correct state of the hub in the status, for an agent that has nothing to send: only its probe
    /// detects the hub.
    private func comeBack(_ agent: AgentUnderTest, _ hub: CabledHub) throws -> Double {
        try hub.unplugHere()
        try agent.wait { $0.connectivity.state == "offline" }
        try hub.plugHere()
        try agent.wait { $0.connectivity.state != "offline" }
        let start = bench_now()
        try agent.wait { $0.connectivity.state == "online" }
        return Double(bench_now() - start) / 1_000
    }

    private func bring(_ count: Int, from agent: AgentUnderTest, firstRow: UInt64) throws {
        _ = try Load(socket: agent.socketPath, entity: .record, producers: Self.one).lines(count, firstRow: firstRow)
    }

    /// Microseconds from the request to sync until the condition holds.
    private func time(_ agent: AgentUnderTest, until isSo: (StatusDocument) -> Bool) throws -> Double {
        let start = bench_now()
        try resume(agent)
        try agent.call("POST", "/v1/sync", body: #"{"scope":"all","force":true,"wait":true}"#)
        try agent.wait(until: isSo)
        return Double(bench_now() - start) / 1_000
    }

    /// The p99 in microseconds.
    private func enqueueing(_ agent: AgentUnderTest, firstRow: UInt64) throws -> Double {
        let run = try Load(socket: agent.socketPath, entity: .record, producers: Self.one)
            .requests(shared.quick ? 500 : 2_000, connections: 1, firstRow: firstRow)
        return run.times.quantile(0.99) / 1_000
    }

    private static func records(_ status: StatusDocument) -> Int64 {
        status.entities.first { $0.name == BenchEntity.record.name }?.records ?? 0
    }
}
