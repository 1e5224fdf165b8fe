package import SyncCore

/// The reason why a request to the agent did not succeed.
package struct AgentError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Sendable, CaseIterable {
        /// No process answers at the socket, or it may not be opened.
        case unreachable
        /// The agent refused; ``problem`` is its answer.
        case refused
        /// The answer broke off, or does not come from an agent.
        case badAnswer = "bad-answer"
    }

    package var code: Code
    /// The request, for the operator: `GET /v1/status`.
    package var doing: String
    package var detail: String
    /// The agent's own answer, or a problem of the same form for a failure on this side.
    package var problem: Problem
    /// `true` when the same request may succeed a moment later, unchanged.
    package var isRetryable: Bool

    static func refused(_ doing: String, _ problem: Problem) -> AgentError {
        let isRetryable = LocalProblem(problem) == .starting || LocalProblem(problem) == .rate
        return AgentError(
            code: .refused, doing: doing, detail: problem.detail, problem: problem, isRetryable: isRetryable)
    }

    static func transport(_ doing: String, socket: String, _ error: TransportError) -> AgentError {
        let isAbsent = error.code == .unreachable || error.code == .unresolved
        let code: Code = isAbsent ? .unreachable : .badAnswer
        let detail =
            isAbsent ? "no agent answers at \(socket): \(reason(error.detail, socket))" : "\(error.doing): \(error.detail)"
        return AgentError(
            code: code, doing: doing, detail: detail, problem: Problem(code.rawValue, status: 0, detail: detail),
            isRetryable: isAbsent || error.code == .broken || error.code == .timedOut)
    }

    /// The system's own message, which the transport puts in brackets at the end. The text before it names a host and a port, which a Unix
    /// socket does not have.
    private static func reason(_ detail: String, _ socket: String) -> String {
        let length = socket.utf8.count
        guard length <= socketPathMax else { return "its path has \(length) bytes, and that of a socket has at most \(socketPathMax)" }
        // Without such a message the queue of connections is full: the system accepts no more, and reports no error for that.
        guard detail.hasSuffix(")"), let open = detail.lastIndex(of: "(") else { return "more callers wait there than the system lets in" }
        return String(detail[open...].dropFirst().dropLast())
    }

    /// Longest path of a socket, bytes: `sun_path` without its final NUL.
    private static let socketPathMax = 107

    static func badAnswer(_ doing: String, _ detail: String) -> AgentError {
        AgentError(
            code: .badAnswer, doing: doing, detail: detail,
            problem: Problem(Code.badAnswer.rawValue, status: 0, detail: detail), isRetryable: false)
    }

    /// The possible action.
    package var hint: String {
        switch code {
        case .unreachable: "is agentd running? If its socket has another path: --socket PATH, or AGENTD_SOCKET"
        case .refused: LocalProblem.hint(problem)
        case .badAnswer: "is it an agent of another version at that socket?"
        }
    }

    /// Exit status of `agentctl`.
    package var exitStatus: Int32 {
        switch code {
        case .unreachable, .badAnswer: 2
        // An answer without a body, as from some proxies, still shows by its status that access is not allowed.
        case .refused: LocalProblem(problem)?.exitStatus ?? (problem.status == 401 || problem.status == 403 ? 77 : 1)
        }
    }

    package var description: String { "\(doing): \(detail)" }
}
