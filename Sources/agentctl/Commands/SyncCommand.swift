import ArgumentParser
import LocalAPI
import SyncCore

struct SyncCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Sync with the hub now.",
        discussion:
            """
            --force overrides metered links, battery, time windows and backoff. It never overrides Retry-After, refused \
            credentials or an exhausted budget.

            An exchange that is under way goes on: a page or a batch on its way is not sent again. The requested cycle \
            follows it and does what is missing.
            """
    )

    @OptionGroup var global: GlobalOptions
    @Option(help: "all, push, pull or full (list everything again).") var scope: SyncRequest.Scope = .all
    @Flag(help: "Override the policy.") var force = false
    @Flag(help: "List everything again and remove records that the hub no longer has: --scope full.") var full = false
    @Flag(help: "Remove the records that were kept because suspiciously many had vanished from the hub (mass_delete).")
    var acceptDeletions = false
    @Flag(help: "Return when the cycle has ended; exit 1 if it failed.") var wait = false

    func validate() throws {
        if full, scope == .push || scope == .pull {
            throw ValidationError("--full is --scope full. It excludes --scope \(scope.rawValue).")
        }
    }

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.sync(
            SyncBody(
                SyncRequest(scope: full ? .full : scope, isForced: force), waits: wait, acceptsDeletions: acceptDeletions))
        if session.isJSON { Output.json(reply.body) }
        guard let outcome = reply.value.outcome else {
            if !session.isJSON { Output.line("queued") }
            await explain(session)
            return wait ? 1 : 0
        }
        if !session.isJSON {
            let view = View()
            let lines = view.isTerminal ? SyncScreen.render(outcome, width: view.width) : [SyncScreen.line(outcome)]
            for line in lines { Output.line(line) }
            if !force, outcome.deferred.values.contains(where: WaitNote.yieldsToForce) {
                Output.note("agentctl: to send that too: agentctl sync --force")
            }
        }
        return outcome.result == "ok" ? 0 : 1
    }

    /// Explains an answer that came before a cycle had ended: the obstacle and its end.
    private func explain(_ session: Session) async {
        // `try?`: the answer is shown without the reason then.
        guard let status = try? await session.client.status().value else {
            if wait { Output.note("agentctl: the cycle has not ended yet") }
            return
        }
        // Without `--wait` only an obstacle is reported.
        guard wait || status.cause != nil || !status.outbox.deferred.isEmpty else { return }
        let view = View()
        Output.note(
            "agentctl: " + WaitNote.sync(status, isForced: force, now: view.now, offset: view.offset))
    }
}
