import NIOCore
import NIOHTTP1

/// The way of a request from the decoder's events to the handler.
extension HTTPConnection {
    // MARK: Notes of what the decoder found

    /// Called from within the decoder: only notes down, ``actOnDecoded()`` acts.
    func decoded(_ part: HTTPServerRequestPart) {
        switch part {
        case .head(let head):
            guard case .head = input, decodedHead == nil else {
                // The decoder and the framing disagree about where a message ends; neither can be trusted any more.
                decoderError = HTTPParserError.unknown
                return
            }
            decodedHead = head
        case .body(let buffer):
            noteBody(buffer)
        case .end:
            decodedEnd = true
        }
    }

    private func noteBody(_ buffer: ByteBuffer) {
        framing.contentCame()
        bodyCount += buffer.readableBytes
        switch bodyUse {
        case .collect(let limit, _), .stream(let limit):
            // What is beyond the limit is not even kept.
            if bodyCount <= limit { body.append(contentsOf: buffer.readableBytesView) }
        case .discard, .undecided:
            break
        }
    }

    func actOnDecoded() {
        if let error = decoderError {
            failInput(HTTPProblem(parserError: error), bodyFailure: .malformed)
            return
        }
        if let head = decodedHead {
            decodedHead = nil
            beginRequest(head)
        }
        guard case .body = input else {
            decodedEnd = false
            return
        }
        switch bodyUse {
        case .collect(let limit, _), .stream(let limit):
            guard bodyCount <= limit else {
                failInput(.bodyTooLarge(limit: limit), bodyFailure: .tooLarge)
                return
            }
        case .discard(let left):
            guard bodyCount <= left else {
                linger()
                return
            }
        case .undecided:
            break
        }
        if decodedEnd {
            decodedEnd = false
            endRequest()
        } else if framing.bodyBytesLeft == 0 {
            // All bytes that were declared are with the decoder, which must have seen the end.
            failInput(HTTPProblem(parserError: HTTPParserError.unknown), bodyFailure: .malformed)
        } else {
            deliverBody()
        }
    }

    /// No piece was possible: too much came that carries nothing.
    func overheadPassedLimit() {
        switch input {
        case .head:
            failInput(.headTooLarge, bodyFailure: .malformed)
        case .body, .complete, .draining, .closed:
            failInput(
                HTTPProblem(.malformed, status: 400, "Chunk extensions or trailers are too long."),
                bodyFailure: .malformed)
        }
    }

    // MARK: A request begins and ends

    private func beginRequest(_ head: HTTPRequestHead) {
        number += 1
        isHead = head.method == .HEAD
        descriptors.beginRequest()
        let facts: RequestFacts
        do {
            facts = try RequestRules.check(head)
        } catch {
            failInput(error, bodyFailure: .malformed)
            return
        }
        if number == 1, let name = server.tlsSubject, let channel = context?.channel,
            case .remote(let address, let port, _) = peer
        {
            peer = .remote(address: address, port: port, tlsSubject: name(channel))
        }
        let request = RequestHead(method: facts.method, peer: peer, contentLength: facts.contentLength, head: head)
        self.request = request
        self.facts = facts
        keepsConnection = facts.keepsConnection && !isStopping
        continueIsDue = facts.awaitsContinue && facts.contentLength != 0
        body = []
        bodyCount = 0
        bodyPace = server.limits.bodyRate.map { BodyPace(rate: $0, grace: server.limits.bodyGrace) }
        bodyHasEnded = false
        bodyFailure = nil
        input = .body
        answer = .pending
        framing.beginBody(length: facts.contentLength)

        carryOut(server.handler.admit(request), request)
    }

    private func carryOut(_ admission: HTTPAdmission, _ request: RequestHead, isKnown: Bool = false) {
        if !admission.takesDescriptor { descriptors.endRequest() }
        switch admission {
        case .refuse(let problem):
            bodyUse = .discard(left: Self.discardLimit)
            refuse(number, problem)
        case .collect(let limit, let then):
            // A body of an unknown caller makes the connection one of an unknown caller, also where a balancer has sent a
            // device's request over it before.
            mark(isKnown: isKnown)
            bodyUse = .collect(limit: limit, then: then)
            guard (request.contentLength ?? 0) <= limit else {
                failInput(.bodyTooLarge(limit: limit), bodyFailure: .tooLarge)
                return
            }
            if case .complete = input { return endCollecting() }
            sendContinueIfDue()
        case .stream(let limit, _, let then):
            if isKnown { mark(isKnown: true) }
            let limit = limit ?? .max
            bodyUse = .stream(limit: limit)
            guard (request.contentLength ?? 0) <= limit else {
                failInput(.bodyTooLarge(limit: limit), bodyFailure: .tooLarge)
                return
            }
            if case .complete = input { bodyHasEnded = true }
            then(HTTPExchange(request: request, connection: self, number: number))
        case .known(let admission):
            carryOut(admission, request, isKnown: true)
        case .later(let ask):
            bodyUse = .undecided
            ask(HTTPDecision(request: request, connection: self, number: number))
        }
    }

    /// What became of ``HTTPAdmission/later(_:)``.
    func decide(_ number: UInt64, _ admission: HTTPAdmission) {
        guard isCurrent(number), case .undecided = bodyUse, let request else { return }
        carryOut(admission, request)
        pump()
    }

    private func endCollecting() {
        guard case .collect(_, let then) = bodyUse, let request else { return }
        bodyUse = .discard(left: 0)
        let whole = body
        body = []
        then(HTTPExchange(request: request, connection: self, number: number), whole)
    }

    private func endRequest() {
        input = .complete
        switch bodyUse {
        case .collect:
            endCollecting()
        case .stream:
            bodyHasEnded = true
            deliverBody()
        case .discard, .undecided:
            break
        }
        proceedIfAnswered()
    }

    /// The answer is over: on to the next request, once this one has been read, or to the end of the connection.
    func proceedIfAnswered() {
        guard case .done = answer else { return }
        switch input {
        case .complete where keepsConnection && !isStopping:
            input = .head
            answer = .none
            request = nil
            isHead = false
            facts = nil
            framing.beginHead()
        case .complete:
            // Closing with unread bytes would reset the connection and destroy the answer on its way.
            if holdsBytes { linger() } else { closeWhenSent() }
        case .body where keepsConnection && canDiscardRest:
            bodyUse = .discard(left: bodyCount + Self.discardLimit)
        case .body:
            linger()
        case .head, .draining, .closed:
            break
        }
        pump()
    }

    /// Whether reading on to the end of the request costs less than a new connection.
    var canDiscardRest: Bool {
        guard case .body = input else { return true }
        guard !continueIsDue, bodyFailure == nil, let left = framing.bodyBytesLeft else { return false }
        return left <= Self.discardLimit
    }

    /// An interim answer is possible before the answer only. A body that is on its way already needs none.
    func sendContinueIfDue() {
        guard continueIsDue, case .pending = answer else { return }
        continueIsDue = false
        if !holdsBytes { AnswerWriter.proceed(into: &out) }
    }

    // MARK: The body, on demand

    func readBody(_ number: UInt64, _ deliver: @escaping @Sendable (HTTPExchange.BodyPart) -> Void) {
        guard isCurrent(number), case .stream = bodyUse else { return deliver(.failed(bodyFailure ?? .closed)) }
        precondition(bodyReader == nil, "a piece of a body was asked for while the one before had not come")
        bodyReader = deliver
        sendContinueIfDue()
        deliverBody()
        pump()
    }

    private func deliverBody() {
        guard case .stream = bodyUse, let deliver = bodyReader else { return }
        let part: HTTPExchange.BodyPart
        if !body.isEmpty {
            part = .bytes(body)
            body = []
        } else if let bodyFailure {
            part = .failed(bodyFailure)
        } else if bodyHasEnded {
            part = .end
        } else {
            return
        }
        bodyReader = nil
        deliver(part)
    }

    // MARK: What the client does wrong

    /// The client's side of the current request, or of the connection between requests, cannot go on.
    ///
    /// A whole answer that has not begun is replaced by `problem`. A streaming handler that has begun to answer is
    /// told, and ends its answer itself.
    func failInput(_ problem: HTTPProblem, bodyFailure failure: HTTPExchange.BodyFailure) {
        server.refused(problem, peer)
        keepsConnection = false
        switch answer {
        case .streaming:
            bodyFailure = failure
            body = []
            deliverBody()
        case .done:
            linger()
        case .none, .pending:
            write(problem: problem)
            answer = .done
            endExchange(bodyFailure: failure)
            linger()
        }
    }

    func actOnEndOfInput() {
        switch input {
        case .head:
            closeWhenSent()
        case .draining:
            if channelBacklog == 0 { close() }
        case .body:
            guard bodyFailure == nil else { return }
            failInput(HTTPProblem(.malformed, status: 400, "The request ended within its body."), bodyFailure: .closed)
        case .complete:
            // A client may close its side once it has asked everything, and wait for the answer.
            keepsConnection = false
        case .closed:
            break
        }
    }

    /// The server has begun to stop, which running exchanges see for themselves when they end.
    func closeIfIdle() {
        if case .head = input { closeWhenSent() }
    }

    /// This connection is one too many.
    func refuseConnection(_ problem: HTTPProblem) {
        failInput(problem, bodyFailure: .closed)
    }
}
