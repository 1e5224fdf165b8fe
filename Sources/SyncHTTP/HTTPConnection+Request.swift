import NIOCore
import NIOHTTP1

/// The path of a request from the decoder's events to the handler.
extension HTTPConnection {
    // MARK: Records of the decoder's events

    /// Called from within the decoder: only records the event; ``actOnDecoded()`` acts on it.
    func decoded(_ part: HTTPServerRequestPart) {
        switch part {
        case .head(let head):
            guard case .head = input, decodedHead == nil else {
                // The decoder and the framing disagree about the end of a message; neither can be trusted any more.
                decoderError = HTTPParserError.unknown
                return
            }
            decodedHead = head
        case .body(let buffer):
            collectBody(buffer)
        case .end:
            decodedEnd = true
        }
    }

    private func collectBody(_ buffer: ByteBuffer) {
        framing.contentCame()
        bodyCount += buffer.readableBytes
        switch bodyUse {
        case .collect(let limit, _), .stream(let limit):
            // Bytes beyond the limit are not stored.
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
            // The decoder has all declared bytes, and must have seen the end.
            failInput(HTTPProblem(parserError: HTTPParserError.unknown), bodyFailure: .malformed)
        } else {
            deliverBody()
        }
    }

    /// No piece was possible: too many bytes came without content.
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
            // The body of an unknown caller makes the connection unknown, even if a balancer has sent a device's request over it before.
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

    /// Carries out the decision of ``HTTPAdmission/later(_:)``.
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

    /// The answer is complete: continues with the next request, once this one has been read, or ends the connection.
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
            // Closing with unread bytes would reset the connection and destroy the answer in transit.
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

    /// `true` when reading to the end of the request costs less than a new connection.
    var canDiscardRest: Bool {
        guard case .body = input else { return true }
        guard !continueIsDue, bodyFailure == nil, let left = framing.bodyBytesLeft else { return false }
        return left <= Self.discardLimit
    }

    /// An interim answer is possible only before the answer. A body that is already arriving needs none.
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

    // MARK: Errors of the client

    /// The client's side of the current request, or of the connection between requests, cannot continue.
    ///
    /// An unstarted answer is replaced by `problem`. A streaming handler that has begun to answer is informed, and ends its answer itself.
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
        case .complete where isStandingBy:
            close()
        case .complete:
            // A client may close its side after its last request, and wait for the answer.
            keepsConnection = false
        case .closed:
            break
        }
    }

    /// The server stops. Running exchanges check this themselves when they end.
    func closeIfIdle() {
        if case .head = input { closeWhenSent() }
    }

    /// This connection is one too many.
    func refuseConnection(_ problem: HTTPProblem) {
        failInput(problem, bodyFailure: .closed)
    }
}
