import Agent
import Glibc
import SyncCore
import SyncLinux

/// `token` in the state folder: what the hub gave this device, for the agent alone.
struct KeptTokenFile: Sendable {
    private let path: String

    init(stateFolder: String) {
        path = stateFolder + "/token"
    }

    var keeper: HubClient.TokenKeeper {
        let path = path
        return HubClient.TokenKeeper(
            read: {
                // Missing, open to others or torn, it says nothing: then the operator's token is shown.
                (try? SecretFiles.ofThisProcess().read(path)).flatMap { KeptToken(reading: $0) }
            },
            keep: { token in try DurableFiles(calls: LinuxFileCalls()).write(token.bytes, to: path) })
    }
}
