/// Decides about requests. The one thing that an API built on ``HTTPServer`` implements.
package protocol HTTPHandler: Sendable {
    /// Looks at a whole, valid head and says what should happen, before a byte of the body is read.
    ///
    /// Called on the event loop of the connection, one request of a connection at a time: it must not block. An actor
    /// that lives on this loop (see ``LoopExecutor``) can be entered with `assumeIsolated`, without a hop.
    func admit(_ request: RequestHead) -> HTTPAdmission
}

/// What should happen to a request.
package enum HTTPAdmission {
    /// Read the whole body, then call `then` on the loop, with an empty array when there is none.
    ///
    /// A body of more than `limit` bytes is answered 413: at once, and without `100 Continue`, when it was declared; as
    /// soon as it is noticed otherwise. A body that does not arrive whole never reaches `then`.
    case collect(limit: Int, then: (HTTPExchange, [UInt8]) -> Void)
    /// Call `then` on the loop now; it reads the body through ``HTTPExchange/readBody(_:)`` at its own pace, and may
    /// answer while the body still arrives. `limit` is as above, `nil` means none.
    ///
    /// With `takesDescriptor`, what the client attached to the head stays open until the request is over or
    /// ``HTTPExchange/takeDescriptor()`` takes it. All other admissions have it closed at once.
    case stream(limit: Int?, takesDescriptor: Bool = false, then: (HTTPExchange) -> Void)
    /// Answer with this problem. A small rest of the request is read and thrown away to keep the connection; a large or
    /// unknown one, or one that waits for `100 Continue`, costs the client its connection.
    case refuse(HTTPProblem)
    /// As the one inside; and the caller has shown who it is, so its TCP connection no longer counts among the strangers'.
    indirect case known(HTTPAdmission)
    /// Nothing is read until the decision comes, which may take a look at a database. It is made once.
    case later((HTTPDecision) -> Void)

    /// Whether the descriptor that came with the head may still be wanted; while the decision is open, it may.
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

/// The admission of one request that is decided later. One that is dropped undecided is answered 500.
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

    /// From any thread; `admission` is called on the connection's loop, and not at all when the client has left meanwhile.
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
    /// Stable, for programs: `too-large`. The server itself uses those of ``ServerCode``.
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
        /// 400: not the HTTP that we speak. 417: an expectation that we do not know.
        case malformed
        /// 413: the body passed its limit. 431: the head did.
        case tooLarge = "too-large"
        /// 405: a method that no route can have (`CONNECT`, `TRACE`, WebDAV).
        case methodNotAllowed = "method-not-allowed"
        /// 408: head or body did not arrive in time.
        case timeout
        /// 501: a transfer coding other than `chunked`.
        case notImplemented = "not-implemented"
        /// 503: too many connections, in all or of this peer. Carries `Retry-After: 1`.
        case busy
        /// 505: HTTP/2, HTTP/0.9.
        case version
        /// 500: the handler dropped the exchange without an answer.
        case `internal`
    }
}
