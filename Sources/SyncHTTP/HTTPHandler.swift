/// Decides about requests: the one protocol that an API on top of ``HTTPServer`` implements.
package protocol HTTPHandler: Sendable {
    /// Decides about a request from its complete, valid head, before a byte of the body is read.
    ///
    /// Called on the event loop of the connection, one request of a connection at a time: it must not block. An actor that lives on this
    /// loop (see ``LoopExecutor``) can be entered with `assumeIsolated`, without a hop.
    func admit(_ request: RequestHead) -> HTTPAdmission
}

/// The decision about a request.
package enum HTTPAdmission {
    /// Read the whole body, then call `then` on the loop, with an empty array when there is none.
    ///
    /// A body of more than `limit` bytes is answered 413: at once, and without `100 Continue`, when it was declared; otherwise as soon as
    /// it is detected. An incomplete body never reaches `then`.
    case collect(limit: Int, then: (HTTPExchange, [UInt8]) -> Void)
    /// Call `then` on the loop now. It reads the body through ``HTTPExchange/readBody(_:)`` at its own pace, and may answer while the body
    /// still arrives. `limit` is as above, `nil` means none.
    ///
    /// With `takesDescriptor`, the descriptor that the client attached to the head stays open until the request is over or
    /// ``HTTPExchange/takeDescriptor()`` takes it. All other admissions close it at once.
    case stream(limit: Int?, takesDescriptor: Bool = false, then: (HTTPExchange) -> Void)
    /// Answer with this problem. A small rest of the request is read and discarded to keep the connection. A large or unknown rest, or a
    /// client that waits for `100 Continue`, ends the connection.
    case refuse(HTTPProblem)
    /// The inner admission; in addition the caller is authenticated, so its TCP connection no longer counts as a stranger's.
    indirect case known(HTTPAdmission)
    /// Nothing is read until the decision comes, which may need a database. It is made once.
    case later((HTTPDecision) -> Void)

    /// `true` when the descriptor that came with the head may still be needed; this includes an open decision.
    var takesDescriptor: Bool {
        switch self {
        case .stream(_, let takesDescriptor, _): takesDescriptor
        case .known(let admission): admission.takesDescriptor
        case .later: true
        case .collect, .refuse: false
        }
    }

    /// Short for ``refuse(_:)``.
    package static func refuse(status: Int, code: String, detail: String) -> HTTPAdmission {
        .refuse(HTTPProblem(status: status, code: code, detail: detail))
    }
}

/// The admission of one request that is decided later. A request whose decision is dropped is answered 500.
package final class HTTPDecision: @unchecked Sendable {
    // Unchecked: `isMade` belongs to the connection's loop, and to the last owner.
    package let request: RequestHead
    private let connection: HTTPConnection
    private let number: UInt64
    private var isMade = false

    init(request: RequestHead, connection: HTTPConnection, number: UInt64) {
        self.request = request
        self.connection = connection
        self.number = number
    }

    deinit {
        guard !isMade else { return }
        connection.onLoop { [number] in $0.abandon(number) }
    }

    /// May be called from any thread. `admission` is called on the connection's loop, and not at all when the client has left meanwhile.
    package func make(_ admission: @escaping @Sendable (RequestHead) -> HTTPAdmission) {
        connection.onLoop { [self] connection in
            precondition(!isMade, "a request was admitted twice")
            isMade = true
            if connection.isCurrent(number) { connection.decide(number, admission(request)) }
        }
    }
}

/// An error answer, before it is made a problem document (RFC 9457) by ``HTTPServerConfiguration/problemBody``.
package struct HTTPProblem: Error, Sendable {
    package var status: Int
    /// A stable code for programs, such as `too-large`. The server itself uses those of ``ServerCode``.
    package var code: String
    /// One sentence for people.
    package var detail: String
    /// Further header fields of the answer, such as `Retry-After`.
    package var headers: [(String, String)]

    package init(status: Int, code: String, detail: String, headers: [(String, String)] = []) {
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
    }

    /// The reason phrase of ``status``: a fitting `title` of the document.
    package var title: String { ReasonPhrase.of(status) }

    /// Codes of the refusals that the server makes by itself.
    package enum ServerCode: String, Sendable, CaseIterable {
        /// 400: invalid HTTP. 417: an unknown expectation.
        case malformed
        /// 413: the body exceeded its limit. 431: the head did.
        case tooLarge = "too-large"
        /// 405: a method that no route can have (`CONNECT`, `TRACE`, WebDAV).
        case methodNotAllowed = "method-not-allowed"
        /// 408: head or body did not arrive in time.
        case timeout
        /// 501: a transfer coding other than `chunked`.
        case notImplemented = "not-implemented"
        /// 503: too many connections, in total or of this peer. Carries `Retry-After: 1`.
        case busy
        /// 505: HTTP/2, HTTP/0.9.
        case version
        /// 500: the handler dropped the exchange without an answer.
        case `internal`
    }
}
