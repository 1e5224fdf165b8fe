import ArgumentParser
import BenchKit
import CBenchFloors
import Glibc
import SyncCore

/// `peerbench`: measures the agent beside programs that are used instead of it.
///
/// It is no part of the product: it starts other programs, and knows their protocols and their settings for durability.
@main
struct PeerBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peerbench",
        abstract: "Measure the agent beside other programs that keep messages, and what each acknowledgement guarantees.",
        discussion: """
            Every program gets the same messages of 200 B, one in a request and one request at a time on each connection. The \
            programs take turns on one file system. A program that is not installed is left out, and the table says so. strace \
            shows whether a program syncs before it answers. deploy/compare fetches the programs without installing anything, \
            and then runs this one.
            """)

    @OptionGroup var shared: SharedOptions

    @Option(help: ArgumentHelp("Folder of the other programs: / or a folder with unpacked packages.", valueName: "folder"))
    var peers = "/"

    private static let watched = 100

    func run() throws {
        let workplace = try Workplace(under: shared.dir)
        defer { workplace.remove() }
        let size = shared.quick ? (alone: 200, together: 5_000) : (alone: 1_000, together: 40_000)
        let producers = Producers(wanted: 64)
        var rows = [CompareRow("agentd", "events, durability flash")] + Peer.allCases.map { CompareRow($0.rawValue, $0.settings) }
        var flash = Distribution("fdatasync of 4 KB")
        for round in 1...shared.roundCount(full: 3) {
            flash.add(try Floors(folder: workplace.folder("floor"), withRecord: false).flash(count: size.alone).times)
            // The order alternates.
            let order = round.isMultiple(of: 2) ? Array(rows.indices.reversed()) : Array(rows.indices)
            for index in order {
                Talk.say("round \(round): \(rows[index].name)")
                let folder = try workplace.folder("one")
                if let peer = Peer(rawValue: rows[index].name) {
                    try measure(peer, folder, producers, size, round, &rows[index])
                } else {
                    try measureAgent(folder, producers, size, round, &rows[index])
                }
            }
        }
        let comparison = Comparison(rows: rows, flash: flash, producers: producers, workplace: workplace)
        print(shared.json ? comparison.json.json : comparison.text)
    }

    private func measureAgent(
        _ folder: String, _ producers: Producers, _ size: (alone: Int, together: Int), _ round: Int, _ row: inout CompareRow
    ) throws {
        let agent = try AgentUnderTest(program: shared.agentd, in: folder, hubURL: AgentUnderTest.noHub, producers: producers)
        defer { agent.stop() }
        let load = Load(socket: agent.socketPath, entity: .event, producers: producers)
        try agent.explaining {
            row.add(
                try load.requests(size.alone, connections: 1, firstRow: 0),
                try load.requests(size.together, connections: producers.count, firstRow: 1 << 32))
            guard round == 1 else { return }
            row.witness = try SyncWitness.watch(agent.pid, in: folder, place: RunningPeer.Place(root: peers)) {
                _ = try load.requests(Self.watched, connections: 1, firstRow: 2 << 32)
            }
        }
    }

    private func measure(
        _ peer: Peer, _ folder: String, _ producers: Producers, _ size: (alone: Int, together: Int), _ round: Int,
        _ row: inout CompareRow
    ) throws {
        let place = RunningPeer.Place(root: peers)
        guard let running = try RunningPeer(peer, from: place, in: folder) else {
            row.isMissing = true
            return
        }
        defer { running.stop() }
        row.add(
            try running.requests(size.alone, connections: 1), try running.requests(size.together, connections: producers.count))
        guard round == 1 else { return }
        row.witness = try SyncWitness.watch(running.pid, in: folder, place: place) {
            _ = try running.requests(Self.watched, connections: 1)
        }
    }
}
