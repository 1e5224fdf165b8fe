package import SyncCore

/// The result of checking one demand of the protocol.
package struct ConformanceResult: Sendable, Hashable {
    package enum Outcome: String, Sendable, Hashable {
        case passed = "ok"
        case failed = "failed"
        /// An optional part that the server does not have, and reports so.
        case notOffered = "not_offered"
        /// A precondition is missing: no token was given, or an earlier step failed.
        case notTried = "not_tried"
    }

    /// A name such as `push-duplicate`, which stays the same from version to version.
    package var name: String
    /// Section of `deploy/api/PROTOCOL.md`: `A4`.
    package var section: String
    /// The demand of the contract, as a sentence.
    package var demand: String
    package var outcome: Outcome
    /// The observation, or the reason why there is none.
    package var seen: String
}

/// The conformance of a server to the protocol.
package struct ConformanceReport: Sendable {
    package var server: String
    package var results: [ConformanceResult]
    /// Sentences about the state in which the server was checked.
    package var notes: [String]
    /// Data that could not be removed: the protocol has no request for it.
    package var left: [String]

    package func count(_ outcome: ConformanceResult.Outcome) -> Int { results.count { $0.outcome == outcome } }

    package var isConformant: Bool { count(.failed) == 0 }

    package var json: JSON {
        [
            "server": .string(server), "conformant": .bool(isConformant), "passed": .int(count(.passed)), "failed": .int(count(.failed)),
            "not_offered": .int(count(.notOffered)), "not_tried": .int(count(.notTried)), "notes": .list(notes), "left": .list(left),
            "checks": .array(
                results.map { result in
                    [
                        "name": .string(result.name), "section": .string(result.section), "demand": .string(result.demand),
                        "outcome": .string(result.outcome.rawValue), "seen": .string(result.seen),
                    ]
                }),
        ]
    }

    // MARK: For a terminal

    /// A line for each check; below failed ones, the demand and the observation.
    package func lines(width: Int = 80) -> [String] {
        let nameWidth = results.map(\.name.count).max() ?? 0
        var lines = ["\(PlainText.padded("CHECK", to: nameWidth))  SECTION  RESULT"]
        for result in results {
            let head = "\(PlainText.padded(result.name, to: nameWidth))  \(PlainText.padded(result.section, to: 7))  "
            switch result.outcome {
            case .passed: lines.append(head + "ok")
            case .failed:
                lines.append(head + "FAILED")
                lines += Self.folded("demanded: " + result.demand, width) + Self.folded("seen:     " + result.seen, width)
            case .notOffered, .notTried:
                let words = result.outcome == .notOffered ? "not offered" : "not tried"
                lines.append(PlainText.clip(head + words + (result.seen.isEmpty ? "" : ": " + result.seen), to: width))
            }
        }
        let counts = [
            "\(count(.passed)) ok", "\(count(.failed)) failed", "\(count(.notOffered)) not offered", "\(count(.notTried)) not tried",
        ]
        lines.append("\(results.count) checks of \(server): " + counts.filter { !$0.hasPrefix("0 ") }.joined(separator: ", "))
        lines += notes.flatMap { Self.folded($0, width, indent: 0) }
        lines += Self.folded(
            "The sections are those of deploy/api/PROTOCOL.md (installed: /usr/share/doc/edge-sync-hub/api/PROTOCOL.md).", width, indent: 0)
        return lines + left.flatMap { Self.folded("left there: " + $0, width, indent: 0) }
    }

    /// Folds at blanks, and within a word that is longer than a line.
    private static func folded(_ text: String, _ width: Int, indent: Int = 4) -> [String] {
        let first = String(repeating: " ", count: indent), next = first + String(repeating: " ", count: 10)
        var lines: [String] = []
        var line = first
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            var rest = word
            if line.count + 1 + rest.count > width, line.count > next.count {
                lines.append(line)
                line = next
            } else if line != first {
                line += " "
            }
            while line.count + rest.count > width {
                let room = max(1, width - line.count)
                lines.append(line + rest.prefix(room))
                rest = rest.dropFirst(room)
                line = next
            }
            line += rest
        }
        return lines + [line]
    }
}
