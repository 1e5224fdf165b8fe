import NIOCore

/// The path of an answer from the exchange to the socket. Calls for any other than the current exchange do nothing.
extension HTTPConnection {
    func isCurrent(_ number: UInt64) -> Bool {
        guard number == self.number else { return false }
        switch answer {
        case .pending, .streaming: return true
        case .none, .done: return false
        }
    }

    // MARK: Whole

    func respond(_ number: UInt64, status: Int, headers: [(String, String)], body: [UInt8], closes: Bool = false) {
        guard isCurrent(number) else { return }
        if closes { keepsConnection = false }
        guard case .pending = answer else { preconditionFailure("a whole answer after the beginning of another") }
        write(status: status, headers: headers, body: body)
        finishAnswer()
    }

    func refuse(_ number: UInt64, _ problem: HTTPProblem) {
        guard isCurrent(number) else { return }
        guard case .pending = answer else { preconditionFailure("a refusal after the beginning of an answer") }
        write(problem: problem)
        finishAnswer()
    }

    func write(problem: HTTPProblem) {
        write(
            status: problem.status, headers: [("Content-Type", "application/problem+json")] + server.problemHeaders + problem.headers,
            body: server.problemBody(problem))
    }

    private func write(status: Int, headers: [(String, String)], body: [UInt8]) {
        if !canDiscardRest || isStopping { keepsConnection = false }
        let isBodyless = Self.isBodyless(status)
        AnswerWriter.head(
            status: status, headers: headers, length: isBodyless ? nil : body.count, isChunked: false,
            keepsConnection: keepsConnection, into: &out)
        if !isBodyless, !isHead { out.writeBytes(body) }
    }

    // MARK: Streamed

    func begin(_ number: UInt64, status: Int, headers: [(String, String)], length: Int?) {
        guard isCurrent(number) else { return }
        guard case .pending = answer else { preconditionFailure("an answer was begun twice") }
        // A successful answer before the body has come means that the body is wanted.
        if status < 400 { sendContinueIfDue() }
        let framing: AnswerFraming =
            if Self.isBodyless(status) || request?.method == .head {
                .bodyless
            } else if let length {
                .counted(left: length)
            } else if facts?.isHTTP11 == true {
                .chunked
            } else {
                .untilClose
            }
        if isStopping || framing == .untilClose { keepsConnection = false }
        AnswerWriter.head(
            status: status, headers: headers, length: Self.isBodyless(status) ? nil : length,
            isChunked: length == nil && facts?.isHTTP11 == true && !Self.isBodyless(status),
            keepsConnection: keepsConnection, into: &out)
        answer = .streaming(framing)
        flushSoon()
    }

    /// The bytes were announced with ``willWrite(_:)``.
    func write(_ number: UInt64, _ bytes: [UInt8]) {
        didWrite(bytes.count)
        guard isCurrent(number) else { return }
        guard case .streaming(let framing) = answer else { preconditionFailure("a piece of an answer before its head") }
        switch framing {
        case .counted(let left):
            precondition(bytes.count <= left, "an answer longer than its length")
            out.writeBytes(bytes)
            answer = .streaming(.counted(left: left - bytes.count))
        case .chunked:
            AnswerWriter.chunk(bytes, into: &out)
        case .untilClose:
            out.writeBytes(bytes)
        case .bodyless:
            break
        }
        flushSoon()
    }

    func end(_ number: UInt64) {
        guard isCurrent(number) else { return }
        guard case .streaming(let framing) = answer else { preconditionFailure("the end of an answer before its head") }
        switch framing {
        case .counted(left: 0), .bodyless, .untilClose:
            break
        case .counted:
            // Too short: only a closed connection tells the client.
            abort(number)
            return
        case .chunked:
            AnswerWriter.lastChunk(into: &out)
        }
        finishAnswer()
    }

    func abort(_ number: UInt64) {
        guard isCurrent(number) else { return }
        answer = .done
        // The earlier bytes are worth sending, as far as the kernel accepts them now.
        flush()
        close()
    }

    /// The handler released the exchange without completing it.
    func abandon(_ number: UInt64) {
        guard isCurrent(number) else { return }
        let problem = HTTPProblem(.internal, status: 500, "The request was not answered.")
        server.refused(problem, peer)
        if case .pending = answer {
            write(problem: problem)
            finishAnswer()
        } else {
            abort(number)
        }
    }

    // MARK: The end of an exchange

    private func finishAnswer() {
        answer = .done
        isStandingBy = false
        // The handler has completed it, so no close action is needed any more.
        closeActions = []
        endExchange(bodyFailure: .closed)
        proceedIfAnswered()
    }

    /// Tells all waiting callbacks of this exchange that nothing more will come.
    func endExchange(bodyFailure failure: HTTPExchange.BodyFailure) {
        answer = .done
        descriptors.endRequest()
        let reader = bodyReader
        let actions = closeActions
        bodyReader = nil
        closeActions = []
        reader?(.failed(failure))
        for action in actions { action() }
        runWritableActions()
    }

    func standBy(_ number: UInt64) {
        guard isCurrent(number) else { return }
        isStandingBy = true
        pump()
    }

    func onClose(_ number: UInt64, _ action: @escaping @Sendable () -> Void) {
        guard isCurrent(number) else { return action() }
        closeActions.append(action)
    }

    func whenWritable(_ number: UInt64, _ action: @escaping @Sendable () -> Void) {
        guard isCurrent(number), !hasRoom else { return action() }
        writableActions.append(action)
    }

    func runWritableActions() {
        guard !writableActions.isEmpty else { return }
        let actions = writableActions
        writableActions = []
        for action in actions { action() }
    }

    /// RFC 9110: 1xx, 204 and 304 end with their head.
    private static func isBodyless(_ status: Int) -> Bool {
        status < 200 || status == 204 || status == 304
    }
}
