import ArgumentParser

struct CompletionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completions",
        abstract: "Print the completion script for a shell.",
        discussion: "For instance: agentctl completions bash > /usr/share/bash-completion/completions/agentctl")

    enum Shell: String, ExpressibleByArgument, CaseIterable { case bash, zsh, fish }

    @Argument(help: "bash, zsh or fish.") var shell: Shell

    func run() throws {
        switch shell {
        case .bash: Output.line(AgentCtl.completionScript(for: .bash))
        case .zsh: Output.line(AgentCtl.completionScript(for: .zsh))
        case .fish: Output.line(AgentCtl.completionScript(for: .fish))
        }
    }
}
