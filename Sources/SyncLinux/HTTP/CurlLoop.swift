import CSyncLinux
import Glibc
import SyncCore
import SyncThreads
import Synchronization

/// The thread that owns curl's multi handle and all transfers.
///
/// Other threads only put commands into the inbox and wake the thread with `curl_multi_wakeup`. Between two rounds it waits in
/// `curl_multi_poll`. That call ends at a byte, at a wake-up, at curl's own timers and at the next deadline of ours. Without transfers
/// there are no bytes, timers and deadlines, so an idle thread never wakes.
///
/// One round processes the commands, lets curl work, hands out the finished transfers and ends the late ones.
///
/// `@unchecked Sendable`: all members below "Only on the thread" are used by the thread alone; the other members guard themselves.
final class CurlLoop: @unchecked Sendable {
    enum Command: Sendable {
        case start(Order, @Sendable (Result<HTTPResponse, TransportError>) -> Void)
        case cancel(UInt64)
        case closeIdleConnections
        case stop
    }

    struct Order: Sendable {
        let id: UInt64
        let request: HTTPRequest
        let sink: AnswerReader.Sink
        let cancellation: Cancellation

        /// `true` when the rate of the request applies. A Unix socket leads over no link, so it has none.
        var hasRate: Bool { request.bytesPerSecond != nil && request.socketPath == nil }
    }

    /// Set by the caller's task and read when the order arrives. A `.cancel` that comes before its order finds no transfer to end.
    final class Cancellation: Sendable {
        private let flag = Atomic(false)

        var isRequested: Bool { flag.load(ordering: .acquiring) }

        func request() {
            flag.store(true, ordering: .releasing)
        }
    }

    private struct Inbox {
        var commands: [Command] = []
        /// The multi handle; `nil` once the loop has ended. It is replaced and used only under the lock, so that a wake-up never meets a
        /// freed handle.
        var multi: MultiHandle?
    }

    private struct MultiHandle: @unchecked Sendable {
        let pointer: UnsafeMutableRawPointer
    }

    private let inbox: Mutex<Inbox>
    private let thread = Mutex<OwnThread?>(nil)
    /// Used on the thread only, except for its leftover.
    let ledger = SocketLedger()

    /// Number of rounds since the start.
    let rounds = Atomic(0)

    // Only on the thread: all members from here on.
    private let settings: Settings
    private var multi: UnsafeMutableRawPointer
    private let share: UnsafeMutableRawPointer
    private var active: [UInt64: CurlTransfer] = [:]
    private var pace = RoundPace()
    private let gate = RateGate()
    /// Orders that begin when the rate has room again.
    private var held: [Held] = []
    private var kept: KeptConnections

    private struct Settings {
        let idleConnections: Int
    }

    private struct Held {
        let order: Order
        let finish: @Sendable (Result<HTTPResponse, TransportError>) -> Void
    }

    init(name: String, idleConnections: Int, idleAge: Duration) throws(LinuxError) {
        settings = Settings(idleConnections: idleConnections)
        kept = KeptConnections(age: idleAge)
        guard Self.globalSetUp == CURLE_OK, let share = curl_share_init(), let multi = Self.makeMulti(settings) else {
            throw LinuxError(.exhausted, doing: "set up curl")
        }
        // TLS sessions live in the share and not in single handles, so that every later connection can resume one. Only this thread uses
        // the share, so it needs no locks.
        csl_share_set_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_SSL_SESSION.rawValue))
        self.share = share
        self.multi = multi
        inbox = Mutex(Inbox(multi: MultiHandle(pointer: multi)))
        do throws(LinuxError) {
            // The thread keeps the loop alive until the command to stop.
            let started = try OwnThread.start(name) { [self] in run() }
            thread.withLock { $0 = started }
        } catch {
            curl_multi_cleanup(multi)
            curl_share_cleanup(share)
            throw error
        }
    }

    func start(_ order: Order, _ finish: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void) {
        if !post(.start(order, finish)) { finish(.failure(Self.closed(order.request))) }
    }

    /// - Returns: `false` when the loop has ended.
    @discardableResult
    func post(_ command: Command) -> Bool {
        inbox.withLock { inbox in
            guard let multi = inbox.multi else { return false }
            inbox.commands.append(command)
            curl_multi_wakeup(multi.pointer)
            return true
        }
    }

    func close() {
        post(.stop)
        thread.withLock { $0 }?.join()
    }

    // MARK: - The thread

    private func run() {
        var isStopping = false
        while !isStopping {
            let commands = takeCommands()
            for command in commands {
                switch command {
                case .start(let order, let finish): accept(order, finish)
                case .cancel(let id): cancel(id)
                case .closeIdleConnections: closeIdleConnections()
                case .stop: isStopping = true
                }
            }
            if isStopping { break }
            rounds.add(1, ordering: .relaxed)
            goOn(now: SystemClocks.instant())
            var running: Int32 = 0
            // libcurl goes on to the next address with the next call, and sets no timer for it.
            for _ in 0..<AddressBook.max {
                ledger.hasLeftOut = false
                curl_multi_perform(multi, &running)
                guard ledger.hasLeftOut else { break }
            }
            handOutFinished()
            // A TLS record may be larger than the rate lets through at once, and curl makes no callback while it arrives.
            if gate.limiter.rate != nil { for transfer in active.values { transfer.holdToRate(now: SystemClocks.instant()) } }
            endLate(now: SystemClocks.instant())
            let pause = pace.pause(
                after: .init(transfers: active.count, newest: active.keys.max(), moved: active.values.map(\.moved).max()),
                hasCommands: !commands.isEmpty)
            if pause > 0 { poll(nil, 0, pause) }
            wait()
        }
        shutDown()
    }

    private func takeCommands() -> [Command] {
        inbox.withLock { inbox in
            defer { inbox.commands = [] }
            return inbox.commands
        }
    }

    private func accept(_ order: Order, _ finish: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void) {
        guard order.hasRate, let rate = order.request.bytesPerSecond else { return begin(order, finish) }
        gate.limiter.use(rate, now: SystemClocks.instant())
        held.append(Held(order: order, finish: finish))
    }

    /// Resumes transfers that waited for the rate, when it has room again.
    private func goOn(now: Instant) {
        guard gate.limiter.rate != nil else { return }
        gate.limiter.fill(now: now)
        for transfer in active.values { transfer.goOn() }
        guard !held.isEmpty, gate.limiter.isOpen else { return }
        for next in held { begin(next.order, next.finish) }
        held = []
    }

    private func cancel(_ id: UInt64) {
        if let transfer = active[id] { return end(transfer, .cancelled, Self.cancelledDetail) }
        guard let index = held.firstIndex(where: { $0.order.id == id }) else { return }
        let order = held.remove(at: index)
        order.finish(.failure(Self.ended(order.order.request, Self.cancelledDetail)))
    }

    private func begin(_ order: Order, _ finish: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void) {
        guard !order.cancellation.isRequested else {
            finish(.failure(Self.ended(order.request, Self.cancelledDetail)))
            return
        }
        do throws(TransportError) {
            let transfer = try CurlTransfer(
                order, share: share, ledger: ledger, gate: order.hasRate ? gate : nil, idleAge: kept.age, now: SystemClocks.instant(),
                finish: finish)
            let code = curl_multi_add_handle(multi, transfer.easy)
            guard code == CURLM_OK else {
                throw TransportError(
                    .broken, doing: transfer.doing, detail: String(cString: curl_multi_strerror(code)))
            }
            active[order.id] = transfer
        } catch {
            finish(.failure(error))
        }
    }

    private func handOutFinished() {
        var waiting: Int32 = 0
        while let message = curl_multi_info_read(multi, &waiting) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let transfer = CurlTransfer.of(easy)
            else { continue }
            // The code is read before the handle is removed, because that frees the message.
            let code = csl_message_result(message)
            if transfer.tryEveryAddress(after: code) {
                curl_multi_remove_handle(multi, transfer.easy)
                if curl_multi_add_handle(multi, transfer.easy) == CURLM_OK { continue }
            }
            release(transfer)
            if code != CURLE_OK, let idle = transfer.idleBeforeSilence { kept.died(afterIdle: idle) }
            // The next attempt must not use the same connection again.
            if transfer.isMisdirected { closeIdleConnections() }
            transfer.complete(code)
        }
    }

    private func endLate(now: Instant) {
        for socket in ledger.addresses.late(now: now) {
            guard !ledger.hasHeard(on: socket) else {
                ledger.addresses.connected(socket)
                continue
            }
            let transfer = ledger.owner(of: socket)
            guard let transfer, !transfer.triesEveryAddress else {
                ledger.addresses.wait(for: socket)
                continue
            }
            // curl sees that the connection failed, and goes on to the next address.
            transfer.cutShort()
            ledger.addresses.closed(socket, now: now)
            shutdown(socket, Int32(SHUT_RDWR))
        }
        for transfer in active.values {
            if let late = transfer.passedDeadline(now: now) { end(transfer, .timedOut, late) }
        }
    }

    private func end(_ transfer: CurlTransfer, _ code: TransportError.Code, _ detail: String) {
        // The step is read before curl lets go of the connection.
        let doing = transfer.doing
        release(transfer)
        transfer.fail(code, doing: doing, detail: detail)
    }

    /// Removes the transfer from curl. That closes a connection in the middle of an answer, and the ledger then counts its last bytes.
    private func release(_ transfer: CurlTransfer) {
        transfer.chargeRate(now: SystemClocks.instant())
        curl_multi_remove_handle(multi, transfer.easy)
        ledger.ended(transfer)
        active[transfer.id] = nil
    }

    private func wait() {
        let now = SystemClocks.instant()
        let opens = held.isEmpty && active.values.allSatisfy { !$0.isPaused } ? nil : gate.limiter.opensAt
        let next = ([opens, ledger.addresses.nextLate] + active.values.map(\.nextDeadline)).compactMap { $0 }.min()
        // Rounded up: a poll that ends a moment too early would spin until the deadline.
        let milliseconds = next.map { (max(0, now.duration(to: $0).nanoseconds) + 999_999) / 1_000_000 }
        let timeout = Int32(clamping: milliseconds ?? Int64(Int32.max))
        var ready: Int32 = 0
        if curl_multi_poll(multi, nil, 0, timeout, &ready) != CURLM_OK {
            // The cause is a lack of memory or a descriptor limit. A pause keeps the loop from spinning until that is over.
            poll(nil, 0, 100)
        }
    }

    private func closeIdleConnections() {
        kept.forget()
        ledger.addresses.forget()
        // curl has no call for it. When no transfer is active, the whole handle is made anew, which ends each connection in order and frees
        // its memory. (The TLS sessions live in the share and stay.)
        if active.isEmpty, let fresh = Self.makeMulti(settings) {
            let old = multi
            multi = fresh
            inbox.withLock { inbox in
                inbox.multi = MultiHandle(pointer: fresh)
                // A command that came since the last round has woken the old handle, and would wait for the next command.
                if !inbox.commands.isEmpty { curl_multi_wakeup(fresh) }
            }
            curl_multi_cleanup(old)
            return
        }
        // Otherwise the kernel closes them: curl finds them dead and drops them before it would use one.
        let busy = Set(active.values.compactMap(\.socket))
        for socket in ledger.idleSockets(except: busy) { shutdown(socket, Int32(SHUT_RDWR)) }
    }

    private func shutDown() {
        let left = inbox.withLock { inbox in
            defer { inbox.commands = [] }
            inbox.multi = nil
            return inbox.commands
        }
        for case .start(let order, let finish) in left { finish(.failure(Self.closed(order.request))) }
        for order in held { order.finish(.failure(Self.closed(order.order.request))) }
        held = []
        for transfer in active.values { end(transfer, .cancelled, Self.closedDetail) }
        curl_multi_cleanup(multi)
        // Every easy handle must be gone before what it shared.
        curl_share_cleanup(share)
    }

    private static let closedDetail = "the transport is closed"
    private static let cancelledDetail = "cancelled by the caller"

    private static func closed(_ request: HTTPRequest) -> TransportError { ended(request, closedDetail) }

    /// The error for a transfer that ends before its begin.
    private static func ended(_ request: HTTPRequest, _ why: String) -> TransportError {
        TransportError(.cancelled, doing: "begin \(request.method.rawValue)", detail: why)
    }

    private static func makeMulti(_ settings: Settings) -> UnsafeMutableRawPointer? {
        guard let multi = curl_multi_init() else { return nil }
        csl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, settings.idleConnections)
        return multi
    }

    /// Runs once in the process, before any other call.
    private static let globalSetUp = curl_global_init(Int(CURL_GLOBAL_DEFAULT))
}
