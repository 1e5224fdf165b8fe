import ArgumentParser
import BenchKit
import CBenchFloors
import SyncCore

/// Checks that the agent stays stable over a long bad day.
struct SoakCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract:
            "Runs agent and hub through cut links, clock jumps, bursts and deaths, and reports growth and losses.",
        discussion: """
            Agent and hub run in two network namespaces with a cable between them. Months pass on both clocks, and the agent's clock \
            jumps. For a time each, the way to the hub is a slow line, a NAT that forgets connections, a name with a dead address, a \
            proxy that answers 404 or 413 (nginx, if installed), and a link with a small budget. In the first half the agent is also \
            killed and restarted. In the second half one process lives, and its growth is judged. At the end all faults stop, waiting \
            work must drain, and the export of the hub must hold each acknowledged change once. Requires iproute2, openssl, and root \
            or unprivileged user namespaces. Exit status 1: a promise is broken.
            """)

    @OptionGroup var shared: SharedOptions

    @Option(help: ArgumentHelp("Length of the run; growth is judged from 10 on.", valueName: "minutes"))
    var minutes = 10.0

    @Option(help: ArgumentHelp("Draws queue, memory, descriptors, log and flash bytes into this file.", valueName: "file"))
    var svg: String?

    @Option(help: ArgumentHelp("Seed of the schedule.", valueName: "number"))
    var seed: UInt64 = 1

    func validate() throws {
        guard (0.3...10_080).contains(minutes) else { throw ValidationError("--minutes takes 0.3 to 10080.") }
    }

    func run() throws {
        if let obstacle = CabledHub.moveIn() { return Talk.say("skipped: \(obstacle)") }
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let schedule = SoakSchedule(seconds: Int(minutes * 60), seed: seed)
        let soak = try Soak(schedule, shared: shared, workplace: workplace)
        defer { soak.stop() }
        Talk.say("soak of \(schedule.seconds) s with \(schedule.events.count) events, seed \(seed)")
        try soak.run()
        Talk.say("healed; waiting until nothing is open")
        try soak.heal()
        let judged = try soak.work.judge(readings: soak.export(.event), orders: soak.export(.record))
        let verdict = SoakVerdict(soak.samples, from: Double(schedule.half), judged: judged)
        if let svg { try write(chart(soak, schedule).text, to: svg) }
        publish(soak, schedule, verdict)
        if !verdict.holds { throw ExitCode(1) }
    }

    private func publish(_ soak: Soak, _ schedule: SoakSchedule, _ verdict: SoakVerdict) {
        let counts = soak.counts.sorted { $0.key < $1.key }
        if shared.json {
            let object: JSON = [
                "schema": "soak/1", "seconds": .int(schedule.seconds), "seed": .string(String(seed)),
                "accepted": .int(soak.work.accepted), "samples": .int(soak.samples.count),
                "events": .object(counts.reduce(into: JSONObject()) { $0[$1.key] = .int($1.value) }),
                "verdict": verdict.json, "holds": .bool(verdict.holds),
            ]
            print(object.json)
        } else {
            print(verdict.text)
            let words = counts.map { "\($0.value) \($0.key.split(separator: "_").joined(separator: " "))" }.joined(
                separator: ", ")
            print("\n\(schedule.seconds) s, \(Double(soak.work.accepted).fixed(0)) changes, \(words); seed \(seed)")
        }
    }

    private func chart(_ soak: Soak, _ schedule: SoakSchedule) -> SVGChart {
        func panel(_ title: String, _ unit: String, _ scale: Double, _ value: (Soak.Sample) -> Double) -> SVGChart.Panel {
            SVGChart.Panel(title: title, unit: unit, points: soak.samples.map { ($0.second, value($0) / scale) })
        }
        return SVGChart(
            title: "agentd through \(schedule.seconds / 60) minutes of trouble", seconds: Double(schedule.seconds),
            panels: [
                panel("mutations that wait", "", 1, \.open), panel("own memory (RssAnon)", "MB", 1_048_576, \.anonymousBytes),
                panel("descriptors", "", 1, \.descriptors), panel("write-ahead log", "MB", 1_048_576, \.walBytes),
                panel("written to storage (/proc/PID/io)", "MB", 1_048_576, \.writtenBytes),
                panel("on the wire, both ways", "MB", 1_048_576, \.wireBytes),
                panel("documents that apps handed over", "MB", 1_048_576, \.workBytes),
            ],
            bands: soak.bands, marks: soak.deaths,
            legend:
                "orange: cable out   blue: wrong wall clock   green: slow line, NAT, proxy, dead address or budget   "
                + "red: killed or restarted (first half)")
    }
}
