import Agent
import Glibc
import SyncCore
import SyncLinux

/// `token` in the state folder: the token that the hub issued to this device, readable by the agent alone.
struct KeptTokenFile: Sendable {
    private let path: String

    init(stateFolder: String) {
        path = stateFolder + "/token"
    }

    var keeper: HubClient.TokenKeeper {
        let path = path
        return HubClient.TokenKeeper(
            read: {
                // A missing, torn or world-readable file counts as none: then the operator's token is used.
                (try? SecretFiles.ofThisProcess().read(path)).flatMap { KeptToken(reading: $0) }
            },
            keep: { token in try DurableFiles(calls: LinuxFileCalls()).write(token.bytes, to: path) })
    }
}
