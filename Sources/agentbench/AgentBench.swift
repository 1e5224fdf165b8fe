import ArgumentParser
import SyncCore

/// `agentbench`: measures the product and its floor in one run.
///
/// A floor is the least possible cost of the work on this machine: the same rows in plain SQLite, the same bytes sent by a C loop. A figure
/// is the ratio to it, because a rate alone says more about the machine than about the agent. Floor and agent take turns, several rounds,
/// on the same file system, and the median of the rounds' ratios counts.
@main
struct AgentBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agentbench",
        abstract:
            "Measures the agent beside its floor: what the same work costs in plain C and SQLite, in the same run.",
        version: "agentbench \(ProductVersion.text)",
        subcommands: [
            EnqueueCommand.self, DrainCommand.self, ReconnectCommand.self, LinkCommand.self, BacklogCommand.self, IdleCommand.self,
            FlashCommand.self, MirrorCommand.self, FormsCommand.self, AllCommand.self, SoakCommand.self, FleetCommand.self,
        ])
}
