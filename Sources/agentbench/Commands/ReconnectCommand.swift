import ArgumentParser
import BenchKit
import CBenchFloors
import LocalAPI
import SyncCore

/// Measures the time in which the agent reconnects after a link returns.
struct ReconnectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reconnect",
        abstract: "Measures the time from link up to the push of a critical mutation that waited for it.",
        discussion: """
            Floor: a round trip for TCP and a TLS handshake with the same hub over the same link. The agent waits on purpose \
            until a new link has been stable; that wait is shown apart and not counted. Requires iproute2, openssl, and root \
            or unprivileged user namespaces; otherwise it is skipped.
            """)

    @OptionGroup var shared: SharedOptions

    func run() throws {
        if let obstacle = CabledHub.moveIn() { return Talk.say("skipped: \(obstacle)") }
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let debounce = LinkWatch.Settings().upDebounce
        var report = Report(command: "reconnect", workplace: workplace)
        report.note("The link is a veth between two network namespaces; it comes up when its far end is switched on.")
        report.note(
            "The agent's time ends when the hub says that it answered the push, so it holds the hub's own commit as well. The "
                + "\(debounce.milliseconds) ms for which a new link must be stable first are taken off, and are in the second line.")

        var counted = Figure(
            id: "reconnect", title: "link up to push, debounce aside", unit: .microseconds,
            floor: "TCP and TLS handshake", goal: .aboveFloor(100_000))
        var whole = Figure(
            id: "reconnect_whole", title: "link up to push, debounce included", unit: .microseconds,
            floor: "TCP and TLS handshake", goal: nil)
        for round in 1...shared.roundCount(full: 5) {
            Talk.say("round \(round)")
            let (floor, agent) = try measure(workplace)
            counted.add(floor: floor, agent: agent - Double(debounce.nanoseconds) / 1_000)
            whole.add(floor: floor, agent: agent)
        }
        report.figures = [counted, whole]
        report.publish(asJSON: shared.json)
        if shared.check, report.figures.contains(where: { $0.isMet == false }) { throw ExitCode(1) }
    }

    /// One round, with its own hub and agent: an agent whose link fails repeatedly waits longer.
    ///
    /// - Returns: Microseconds.
    private func measure(_ workplace: Workplace) throws -> (floor: Double, agent: Double) {
        let hub = try CabledHub(agenthub: shared.agenthub, in: workplace.folder("hub"))
        defer { hub.stop() }
        let floor = try hub.handshake() / 1_000
        let agent = try AgentUnderTest(
            program: shared.agentd, in: workplace.folder("agent"), hubURL: hub.url, token: hub.token,
            issuer: hub.certificate, producers: Producers(wanted: 1))
        defer { agent.stop() }
        return try agent.explaining {
            // The first contact transfers more, so it is made before the measurement.
            try enqueue(agent)
            try hub.waitFor("/v1/sync/push", doing: "the first push")
            try agent.wait { $0.outbox.open == 0 }
            try hub.pull()
            try agent.wait { $0.connectivity.state == "offline" }
            try enqueue(agent)
            let up = try hub.plug()
            let pushed = try hub.waitFor("/v1/sync/push", doing: "the push after link up")
            return (floor, Double(pushed - up) / 1_000)
        }
    }

    private func enqueue(_ agent: AgentUnderTest) throws {
        let body = #"{"entity":"\#(BenchEntity.event.name)","action":"create","data":{"n":1},"priority":"critical"}"#
        try agent.call("POST", "/v1/mutations", body: body)
    }
}
