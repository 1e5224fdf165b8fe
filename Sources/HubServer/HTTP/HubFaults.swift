#if ABLATIONS
    import Glibc
    import NIOCore
    import NIOPosix
    import SyncCore
    import SyncHTTP
    import Synchronization

    /// Injected faults for tests with real programs; never part of a shipped build.
    ///
    /// `AGENTHUB_FAULTS="drop=0.1,cut=0.05,unavailable=0.05,portal=0.02,delay_ms=50,seed=7"`: shares of the devices' requests. `drop`
    /// closes the connection instead of answering, after the commit; `cut` sends half of the answer. `unavailable` answers 503 like a proxy
    /// before the hub and does nothing. `portal` answers 200 with a login page and does nothing. `delay_ms` delays each answer.
    package final class HubFaults: Sendable {
        private let shares: [String: Double]
        private let random: Mutex<SeededRandom>

        static func fromEnvironment() -> HubFaults? {
            getenv("AGENTHUB_FAULTS").map { HubFaults(String(cString: $0)) }
        }

        package init(_ text: String) {
            var shares: [String: Double] = [:]
            for pair in text.split(separator: ",") {
                let sides = pair.split(separator: "=")
                if sides.count == 2, let share = Double(sides[1]) { shares[String(sides[0])] = share }
            }
            self.shares = shares
            random = Mutex(SeededRandom(seed: UInt64(exactly: shares["seed"] ?? 1) ?? 1))
        }

        private func strikes(_ name: String) -> Bool {
            guard let share = shares[name] else { return false }
            return random.withLock { $0.fraction() } < share
        }

        /// The answer of an injected fault; the hub does not see the request then.
        func instead(of endpoint: Endpoint?) -> HubResponse? {
            guard endpoint?.isForDevices == true else { return nil }
            if strikes("unavailable") {
                return HubResponse(Problem("maintenance", status: 503, detail: "a test wants it so", retryAfter: 1))
            }
            guard strikes("portal") else { return nil }
            let page = "<html><body>Welcome! Please log in.</body></html>"
            return HubResponse(status: 200, headers: ["Content-Type": "text/html"], body: Array(page.utf8))
        }

        /// - Returns: `true` when the exchange is over, or will be.
        func spoil(_ response: HubResponse, _ exchange: HTTPExchange) -> Bool {
            if strikes("drop") {
                exchange.abort()
                return true
            }
            if strikes("cut"), response.body.count > 1 {
                let fields = response.headers.fields.map { ($0.name, $0.value) }
                exchange.begin(status: response.status, headers: fields, length: response.body.count)
                exchange.write(Array(response.body.prefix(response.body.count / 2)))
                exchange.abort()
                return true
            }
            if let delay = shares["delay_ms"], let loop = MultiThreadedEventLoopGroup.currentEventLoop {
                loop.scheduleTask(in: .milliseconds(Int64(delay))) { exchange.respond(response) }
                return true
            }
            return false
        }
    }
#endif
