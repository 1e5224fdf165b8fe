/// The meaning of the answer to a writing request (PROTOCOL A13, the table).
package enum RestAnswer: Hashable, Sendable {
    case applied
    /// Nothing was done; a later attempt may succeed.
    case later(Problem, after: Duration?)
    /// Nothing was done, because the record is not in the expected version.
    case moved(Problem)
    /// Nothing was done, because the record does not exist.
    case gone(Problem)
    /// Nothing was done, and the same request will never succeed.
    case refused(Problem)
    /// Nothing was done, because of the credentials. `isForAll`: no other request succeeds with them either.
    case forbidden(Problem, isForAll: Bool)
    /// Nothing was done, and the answer does not come from the backend.
    case elsewhere(String)
    /// It may have been done. `isFailure`: the backend failed during it.
    case unsure(Problem, after: Duration?, isFailure: Bool)

    package static func read(
        _ response: HTTPResponse, to action: MutationAction, ok: [Int], notApplied: Set<Int>, now: Timestamp
    ) -> RestAnswer {
        let status = response.status
        let after = HubHeaders(reading: response.headers, now: now).asked
        let problem = problem(response)
        if ok.contains(status) {
            // An HTML page instead of an answer.
            guard status >= 300 || response.body.isEmpty || !isHTML(response) else {
                return .unsure(unclear(response), after: after, isFailure: false)
            }
            return .applied
        }
        switch status {
        case 301, 307, 308, 407, 511: return .elsewhere("the answer is \(status)\(leads(response))")
        case 200...399: return .unsure(unclear(response), after: after, isFailure: false)
        case 401: return .forbidden(problem, isForAll: true)
        case 403: return .forbidden(problem, isForAll: false)
        case 404, 410: return action == .create ? .later(problem, after: after) : .gone(problem)
        case 408, 421, 425, 429: return .later(Problem("busy", status: status, detail: problem.detail), after: after)
        case 409: return isInProgress(response) ? .unsure(problem, after: after, isFailure: false) : .moved(problem)
        case 412: return .moved(problem)
        case 501: return .refused(problem)
        case 500...599:
            if notApplied.contains(status) { return .later(Problem("busy", status: status, detail: problem.detail), after: after) }
            return .unsure(problem, after: after, isFailure: true)
        default: return .refused(problem)
        }
    }

    private static func unclear(_ response: HTTPResponse) -> Problem {
        Problem(
            "unclear-answer", status: response.status,
            detail: "the answer is \(response.status)\(leads(response)), which the mapping does not name as done")
    }

    private static func leads(_ response: HTTPResponse) -> String {
        response.headers["Location"].map { ", redirected to \(Printable.text($0, max: 120))" } ?? ""
    }

    static func isHTML(_ response: HTTPResponse) -> Bool {
        guard let type = response.headers["Content-Type"]?.split(separator: ";").first else { return false }
        return asciiCaseEqual(type.trimmingSpaces, "text/html")
    }

    /// Returns whether the answer says that the first request of a key is still being processed: the IETF draft leaves the wording to the
    /// problem document, and other backends have codes of their own.
    private static func isInProgress(_ response: HTTPResponse) -> Bool {
        let text = String(decoding: response.body.prefix(4_096), as: UTF8.self).lowercased()
        let words = ["in-progress", "in_progress", "in progress", "key_in_use", "key-in-use", "being processed", "outstanding"]
        return words.contains { word in Self.contains(text, word) }
    }

    private static func contains(_ text: String, _ word: String) -> Bool {
        let (bytes, sought) = (Array(text.utf8), Array(word.utf8))
        guard bytes.count >= sought.count else { return false }
        return (0...(bytes.count - sought.count)).contains { bytes[$0..<($0 + sought.count)].elementsEqual(sought) }
    }

    /// The backend's answer as a problem.
    package static func problem(_ response: HTTPResponse) -> Problem {
        let code =
            switch response.status {
            case 401: "auth"
            case 403: "forbidden"
            case 404, 410: "deleted"
            case 409: "conflict"
            case 412: "version-mismatch"
            case 413: "too-large"
            case 405, 501: "unsupported"
            case 500...599: "failed-alone"
            default: "validation"
            }
        var problem = Problem(code, status: response.status, detail: "the backend answered \(response.status)")
        // `try?`: an answer that is no JSON has no text for people, so only the status is used.
        guard let object = (try? JSONReader.read(response.body, limits: .answer))?.object else { return problem }
        for name in ["detail", "message", "error_description", "title", "error"] {
            guard let text = object[name]?.text ?? object[name]?.object?["message"]?.text, !text.isEmpty else { continue }
            problem.detail += ": " + Printable.text(text, max: 300)
            break
        }
        // Several frameworks report fields as `{"notes": ["This field may not be blank."]}`.
        for member in object.members.prefix(20) {
            guard let first = member.value.array?.first?.text else { continue }
            problem.errors.append(.init("/data/" + member.name.text, Printable.text(first, max: 300)))
        }
        if problem.detail.utf8.count < 30, let first = problem.errors.first {
            problem.detail += ": \(first.pointer.dropFirst(6)): \(first.detail)"
        }
        return problem
    }
}
