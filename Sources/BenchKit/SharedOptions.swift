package import ArgumentParser

/// The options of every measurement.
package struct SharedOptions: ParsableArguments {
    @Flag(help: "Print one JSON object instead of a table.")
    package var json = false

    @Flag(help: "Fewer rounds and smaller loads, to see that it works. The figures say little.")
    package var quick = false

    @Flag(help: "Exit with 1 when a goal is missed.")
    package var check = false

    @Option(help: ArgumentHelp("Number of rounds, in each of which the programs take turns.", valueName: "count"))
    package var rounds: Int?

    @Option(help: ArgumentHelp("Folder for everything that is written. It must not be in memory.", valueName: "folder"))
    package var dir = "/var/tmp"

    @Option(help: ArgumentHelp("The agent to measure; default: next to this program.", valueName: "program"))
    package var agentd: String?

    @Option(help: ArgumentHelp("The hub to drain to; default: next to this program.", valueName: "program"))
    package var agenthub: String?

    package init() {}

    package func validate() throws {
        if let rounds, !(1...100).contains(rounds) { throw ValidationError("--rounds takes 1 to 100.") }
    }

    /// - Parameter full: Rounds of a full measurement.
    package func roundCount(full: Int) -> Int { rounds ?? (quick ? 2 : full) }
}
