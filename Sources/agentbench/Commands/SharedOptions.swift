import ArgumentParser

/// The options of every measurement.
struct SharedOptions: ParsableArguments {
    @Flag(help: "Print one JSON object instead of a table.")
    var json = false

    @Flag(help: "Fewer rounds and smaller loads: shows that it works, measures little.")
    var quick = false

    @Flag(help: "Exit with 1 when a goal is missed.")
    var check = false

    @Option(help: ArgumentHelp("How often floor and agent take turns.", valueName: "count"))
    var rounds: Int?

    @Option(help: ArgumentHelp("Folder for everything that is written. Must not be in memory.", valueName: "folder"))
    var dir = "/var/tmp"

    @Option(help: ArgumentHelp("The agent to measure; default: next to agentbench.", valueName: "program"))
    var agentd: String?

    @Option(help: ArgumentHelp("The hub to drain to; default: next to agentbench.", valueName: "program"))
    var agenthub: String?

    func validate() throws {
        if let rounds, !(1...100).contains(rounds) { throw ValidationError("--rounds takes 1 to 100.") }
    }

    /// - Parameter full: Rounds of a full measurement.
    func roundCount(full: Int) -> Int { rounds ?? (quick ? 2 : full) }
}
