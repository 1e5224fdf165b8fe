import Logging
import SyncLinux
import Synchronization

/// Resolves the numeric addresses of the hub that is configured now.
final class HubAddresses: Sendable {
    private let current = Mutex<(host: String, resolver: HubResolver)?>(nil)
    private let log: Logger

    init(_ log: Logger) {
        self.log = log
    }

    func resolve(_ host: String, _ answer: @escaping @Sendable ([String]?, Bool) -> Void) {
        do throws(LinuxError) {
            let resolver = try resolver(for: host)
            let isLiteral = resolver.isLiteral
            resolver.resolve { [log] result in
                switch result {
                case .success(let addresses): answer(addresses, isLiteral)
                case .failure(let error):
                    log.info("the hub's name cannot be resolved now", metadata: ["error": "\(error)"])
                    answer(nil, isLiteral)
                }
            }
        } catch {
            log.warning("the hub's name cannot be looked up", metadata: ["error": "\(error)"])
            answer(nil, false)
        }
    }

    private func resolver(for host: String) throws(LinuxError) -> HubResolver {
        if let known = current.withLock({ $0 }), known.host == host { return known.resolver }
        let made = try HubResolver(host: host)
        current.withLock { $0 = (host, made) }
        return made
    }
}
