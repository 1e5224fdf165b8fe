import LocalAPI
import Logging
package import SyncCore

// The operator's program that may bring a link back (`links[].recover`).
extension Agent {
    package func recover(_ run: LinkRecovery.Run) {
        guard let runProgram = environment.runProgram else { return }
        log.notice("recover", metadata: ["link": "\(run.link)", "program": "\(run.program)", "cause": "nothing answers"])
        runProgram(run.program, run.link) { [executor, weak self] isGood, result in
            Task(executorPreference: executor) { await self?.recovered(run, isGood, result) }
        }
    }

    private static let recoveriesMax = 64

    private func recovered(_ run: LinkRecovery.Run, _ isGood: Bool, _ result: String) {
        var account = around.recoveries[run.link] ?? LinkItem.Recovery(runs: 0, at: environment.time.now().wall, result: result)
        account.runs += 1
        // Interfaces may appear under ever new names.
        if around.recoveries[run.link] == nil, around.recoveries.count >= Self.recoveriesMax { around.recoveries.removeAll() }
        account.at = environment.time.now().wall
        account.result = result
        around.recoveries[run.link] = account
        log.log(
            level: isGood ? .notice : .warning, "recover",
            metadata: ["link": "\(run.link)", "program": "\(run.program)", "result": "\(result)"])
    }
}
