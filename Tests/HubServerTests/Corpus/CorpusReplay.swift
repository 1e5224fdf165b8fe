import HubServer
import NumbersKit
import SyncCore
import SyncLinux
import SyncYAML

/// Asks a fresh hub what a case says, and compares.
struct CorpusReplay {
    let bench: HubBench
    private var blanks = Blanks()

    init(_ hub: JSONObject) throws {
        var tokens: TokenBook?
        if let devices = hub["tokens"]?.object {
            var book = TokenBook()
            var random = SeededRandom(seed: 4)
            for member in devices.members {
                let device = DeviceID(trusted: member.name.text)
                blanks.bind(
                    "{token:\(device)}",
                    book.add(
                        device, member.value.text == "enrolment" ? .enrolment : .device, at: Timestamp(milliseconds: 0), using: &random))
                if member.value.text == "revoked" { _ = book.revoke(device, at: Timestamp(milliseconds: 1)) }
            }
            tokens = book
        }
        // JSON is YAML: the entities of a case are read as `agenthub serve --entities` reads them.
        var settings: JSONObject = [:]
        for name in ["entities", "strict_entities"] { settings[name] = hub[name] }
        let rules = try EntitySettings.readEntities(ConfigurationFile(name: "hub", text: JSON.object(settings).json))
        bench = try HubBench(rules: rules, tokens: tokens, compressor: hub["gzip"]?.bool == false ? nil : ZlibCompressor())
        if hub["config"]?.bool == true {
            let config = HubConfiguration(EntitySettings.written(rules))
            bench.hub.settings.config = config
            blanks.bind("{config}", String(config.version))
        }
    }

    /// Does what comes before, and the request of the case itself.
    ///
    /// - Returns: Its answer, and what is not as the case says, a line for each place.
    mutating func run(_ example: CorpusCase) throws -> (HubResponse, differences: [String]) {
        var differences: [String] = []
        for (index, step) in example.before.enumerated() {
            switch step {
            case .event("start-epoch"): try bench.hub.startEpoch()
            case .event("collect-tombstones"):
                try bench.hub.collectTombstones(before: bench.now.advanced(by: .milliseconds(1)))
            case .event("fail-commits"): bench.hub.beforeCommit = { false }
            case .event(let name): throw CorpusCase.Mistake(description: "nobody knows the event \(name)")
            case .exchange(let request, let expected):
                let answer = send(request)
                if let expected {
                    differences += compare(expected, answer).map { "before \(index): \($0)" }
                } else if answer.status != 200 {
                    differences.append("before \(index): \(HubBench.Unexpected(answer))")
                }
            }
        }
        let answer = send(example.request)
        return (answer, differences + compare(example.response, answer))
    }

    /// Asks the same with one number after the other replaced: in the body, in the headers and in the query.
    func sendHostile(_ request: CorpusCase.Request, _ body: (String, HubResponse) -> Void) {
        if let json = request.body.map({ blanks.filled($0) }) {
            for variant in HostileNumbers.variants(of: json) {
                body("\(variant.place) = \(variant.value)", send(request, filled: variant.json))
            }
        }
        for member in request.headers.members {
            for value in HostileNumbers.texts(like: blanks.filled(member.value.text ?? "")) {
                var changed = request
                changed.headers[member.name.text] = .string(value)
                body("\(member.name.text): \(value)", send(changed))
            }
        }
        let parts = request.target.split(separator: "?", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return }
        let parameters = parts[1].split(separator: "&").map(String.init)
        for (index, parameter) in parameters.enumerated() {
            guard let equals = parameter.firstIndex(of: "="), Int64(parameter[parameter.index(after: equals)...]) != nil else { continue }
            for value in HostileNumbers.numbers {
                var others = parameters
                others[index] = parameter[...equals] + value
                var changed = request
                changed.target = parts[0] + "?" + others.joined(separator: "&")
                body("?\(others[index])", send(changed))
            }
        }
    }

    /// - Parameter filled: Another body, without blanks.
    private func send(_ request: CorpusCase.Request, filled: JSON? = nil) -> HubResponse {
        var headers: HTTPHeaders = [:]
        for member in request.headers.members { headers.append(member.name.text, blanks.filled(member.value.text ?? "")) }
        return bench.hub.handle(
            HubRequest(request.method, blanks.filled(request.target), headers: headers, body: body(of: request, filled)),
            at: bench.now)
    }

    private func body(of request: CorpusCase.Request, _ filled: JSON?) -> [UInt8] {
        var bytes = (filled ?? request.body.map { blanks.filled($0) })?.bytes ?? Array((request.text ?? "").utf8)
        if bytes.count < request.padding { bytes += [UInt8](repeating: UInt8(ascii: " "), count: request.padding - bytes.count) }
        return request.isGzipped ? ZlibCompressor().gzip(bytes) ?? [] : bytes
    }

    // MARK: Comparing

    private mutating func compare(_ expected: CorpusCase.Response, _ answer: HubResponse) -> [String] {
        var differences: [String] = []
        if expected.status != answer.status { differences.append("status: \(answer.status) instead of \(expected.status)") }
        // Later values of one name do not occur; they would be lost here and show as a difference of the count.
        var headers: JSONObject = [:]
        for field in answer.headers.fields { headers[field.name] = .string(field.value) }
        if headers.count != answer.headers.fields.count { differences.append("headers: a name comes twice") }
        blanks.compare(.object(expected.headers), .object(headers), "headers", &differences)
        if let text = expected.text {
            if text == "{text}" ? answer.body.isEmpty : text != String(decoding: answer.body, as: UTF8.self) {
                differences.append("text: \(HubBench.Unexpected(answer))")
            }
        } else if let body = expected.body {
            guard let json = try? JSONReader.read(answer.body, limits: .message) else {
                return differences + ["body: no JSON: \(HubBench.Unexpected(answer))"]
            }
            blanks.compare(body, json, "body", &differences)
        } else if !answer.body.isEmpty {
            differences.append("body: expected none: \(HubBench.Unexpected(answer))")
        }
        return differences
    }
}

/// The named blanks of a case, which stand for what no two hubs say alike.
///
/// `{epoch}`, `{time}`, `{time-ms}`, `{cursor:…}`, `{token:…}`, `{config}` stand for one value throughout a case: an answer fills a blank
/// in, later requests and answers repeat it. `{text}` is a sentence for people, different each time; so is `{receipt}`, while
/// `{receipt:…}` is one that is shown again. `{filler:N}` is N times
/// the letter x.
struct Blanks {
    private var values: [String: String] = [:]

    mutating func bind(_ name: String, _ value: String) { values[name] = value }

    /// Replaces the blanks that are filled in.
    func filled(_ text: String) -> String {
        guard text.utf8.contains(UInt8(ascii: "{")) else { return text }
        if text.hasPrefix("{filler:"), let count = Int(text.dropFirst(8).dropLast()) {
            return String(repeating: "x", count: count)
        }
        return values.reduce(text) { $0.replacing($1.key, with: $1.value) }
    }

    func filled(_ json: JSON) -> JSON {
        switch json {
        // Text that holds no blank stays as it is written, escapes included.
        case .string(let string):
            let text = string.text
            let full = filled(text)
            return full == text ? json : .string(full)
        case .array(let elements): return .array(elements.map { filled($0) })
        case .object(let object):
            var copy: JSONObject = [:]
            for member in object.members { copy[member.name.text] = filled(member.value) }
            return .object(copy)
        default: return json
        }
    }

    /// Fills blanks of `expected` in from `actual`, and notes each place where the two differ otherwise.
    mutating func compare(_ expected: JSON, _ actual: JSON, _ place: String, _ differences: inout [String]) {
        switch (expected, actual) {
        case (.object(let left), .object(let right)):
            for member in left.members {
                let name = member.name.text
                if let value = right[name] {
                    compare(member.value, value, "\(place)/\(name)", &differences)
                } else {
                    differences.append("\(place)/\(name): missing")
                }
            }
            for name in right.names where left[name] == nil { differences.append("\(place)/\(name): not expected") }
        case (.array(let left), .array(let right)) where left.count == right.count:
            for index in left.indices { compare(left[index], right[index], "\(place)/\(index)", &differences) }
        case (.string(let blank), .string(let value)) where Blanks.kind(blank.text) != nil:
            if let reason = fill(blank.text, value.text) { differences.append("\(place): \(value.text) is not \(reason)") }
        case (.string(let blank), .number(let value)) where blank.text == "{config}":
            if let reason = fill(blank.text, value.source) { differences.append("\(place): \(value.source) is not \(reason)") }
        default:
            if expected != actual { differences.append("\(place): \(actual.json) instead of \(expected.json)") }
        }
    }

    /// - Returns: What the value should have been, if it is something else.
    private mutating func fill(_ blank: String, _ value: String) -> String? {
        if let known = values[blank] { return known == value ? nil : known }
        let isGood =
            switch Blanks.kind(blank) {
            case "epoch": Identifier<Never>(value) != nil
            case "time": RFC3339.timestamp(value) != nil
            case "time-ms": Int64(value) != nil
            case "cursor": (1...Limits.cursorBytes).contains(value.utf8.count)
            case "text": !value.isEmpty
            case "receipt": Receipt.isCarried(value)
            case "config": Int64(value) != nil
            default: false
            }
        guard isGood else { return blank }
        if blank != "{text}", blank != "{receipt}" { values[blank] = value }
        return nil
    }

    private static func kind(_ text: String) -> Substring? {
        guard text.hasPrefix("{"), text.hasSuffix("}") else { return nil }
        let kind = text.dropFirst().dropLast().prefix { $0 != ":" }
        return ["epoch", "time", "time-ms", "cursor", "text", "config", "receipt"].contains(kind) ? kind : nil
    }
}
