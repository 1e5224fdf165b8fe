import SyncCore
import SyncYAML

extension ServiceURL {
    enum PlainHTTP: Sendable {
        case loopbackOnly, anywhere
    }

    /// Placeholder for a missing address; RFC 2606 guarantees that it never resolves. A configuration that still has it was refused,
    /// because `hub.url` is required.
    static let notGiven: ServiceURL = {
        do { return try ServiceURL("https://not-given.invalid") } catch { preconditionFailure("\(error)") }
    }()
}

extension Format where Value == ServiceURL {
    static func serviceURL(plain: ServiceURL.PlainHTTP) -> Format {
        let expected = "https://HOST or https://HOST:PORT"
        return Format(
            expected: expected,
            read: { node, reading in
                guard !node.isNull, case .scalar(let text, _) = node.content else {
                    reading.refuse(node, expected: expected)
                    return nil
                }
                do throws(ServiceURL.Refusal) {
                    let url = try ServiceURL(text)
                    if url.isSecure || url.isLoopback || plain == .anywhere { return url }
                    reading.refuse(node, expected: "https://, because http:// is only for a loopback address")
                } catch {
                    reading.refuse(node, expected: error.expected, hidesValue: error.hidesValue)
                }
                return nil
            }, write: { .string($0.text) })
    }
}

extension Format where Value == ServiceURL? {
    /// Reads a URL; an empty text (`""`) means no address.
    static func serviceURLOrEmpty(plain: ServiceURL.PlainHTTP) -> Format {
        let url = Format<ServiceURL>.serviceURL(plain: plain)
        return Format(
            expected: url.expected + " or \"\"",
            read: { node, reading in
                if case .scalar("", isPlain: false) = node.content { return .some(nil) }
                return url.read(node, &reading).map { .some($0) }
            }, write: { $0.map(url.write) ?? "" })
    }
}

extension Format where Value == ServiceURL {
    static var proxyURL: Format {
        .text(
            expected: "http://HOST:PORT, without a user name, a password or a path: credentials go into hub.proxy_credentials_file",
            hidesValue: true,
            parse: { text in
                // `try?`: the fault is described by the text above.
                guard let url = try? ServiceURL(text), !url.isSecure, url.path.isEmpty else { return nil }
                return url
            }, write: { .string($0.text) })
    }
}

extension Format where Value == HTTPProxy.Exception {
    static var proxyException: Format {
        .text(
            expected: "a host name such as example.com, an address, or a network such as 10.0.0.0/8",
            parse: { HTTPProxy.Exception($0) }, write: { .string($0.description) })
    }
}

extension Format where Value == UInt16 {
    /// Permission bits as for `chmod`, four octal digits. The agent itself must be able to use its socket.
    static var socketMode: Format {
        .text(
            expected: "four octal digits from 0600 to 0777, such as \"0660\"",
            parse: { text in
                guard text.utf8.count == 4, text.utf8.first == UInt8(ascii: "0"), let mode = UInt16(text, radix: 8),
                    mode & 0o600 == 0o600
                else { return nil }
                return mode
            }, write: { .string("0" + String($0, radix: 8)) })
    }
}

extension Format where Value == String {
    /// Pins as libcurl accepts them (CURLOPT_PINNEDPUBLICKEY): the SHA-256 of a key has 32 bytes, 44 characters in base64.
    static var publicKeyPins: Format {
        .text(
            expected: "sha256//BASE64, several with ; between them",
            parse: { text in
                let pins = text.split(separator: ";", omittingEmptySubsequences: false)
                return pins.count <= 8 && pins.allSatisfy(isPin) ? text : nil
            }, write: { .string($0) })
    }

    private static func isPin(_ text: Substring) -> Bool {
        guard text.hasPrefix("sha256//") else { return false }
        let digest = Array(text.utf8.dropFirst(8))
        guard digest.count == 44, digest.last == UInt8(ascii: "=") else { return false }
        return digest.dropLast().allSatisfy { byte in
            (byte >= 65 && byte <= 90) || (byte >= 97 && byte <= 122) || (byte >= 47 && byte <= 57) || byte == 43
        }
    }
}

extension Format where Value == TimeWindow {
    static var timeWindow: Format {
        .text(
            expected: "a part of the week, such as 22:00-05:00 or mon-fri 09:00-17:30", parse: { TimeWindow($0) },
            write: { .string($0.text) })
    }
}

extension LinkRule {
    /// Links in the order of the file: the first match counts, so a repeated pattern is a mistake.
    static var listFormat: Format<[LinkRule]> {
        Format.list(format, upTo: 100).mapped(
            { rules, node, reading in
                guard reading.isWhole, case .sequence(let nodes) = node.content else { return rules }
                for (index, rule) in rules.enumerated()
                where rules[..<index].contains(where: { $0.match == rule.match }) {
                    let place = index < nodes.count ? nodes[index].deepest(["match"]).position : node.position
                    reading.inside(element: index) {
                        $0.report(
                            place, below: "match", problem: "repeats the pattern of an earlier rule, which is the one in force")
                    }
                }
                return rules
            }, back: { $0 })
    }

    private static var format: Format<LinkRule> {
        .mapping(
            LinkRule(match: .all),
            [
                .key("match", \.match, .interfacePattern, isRequired: true),
                .optional("metered", \.metered, .boolean),
                .optional("budget", \.budget, LinkBudget.format),
                .optional("rate", \.bytesPerSecond, .size(1_000...1_000_000_000)),
                .key("prefer", \.prefer, .integer(0...1_000)),
                .optional("recover", \.recover, .path()),
                .key("recover_after", \.recoverAfter, .duration(.seconds(300)...(.seconds(86_400)))),
                .key("recover_every", \.recoverEvery, .duration(.seconds(600)...(.days(7)))),
            ])
    }
}

extension LinkBudget {
    fileprivate static var format: Format<LinkBudget> {
        .mapping(
            LinkBudget(),
            [
                .optional("day", \.dayBytes, .size(10_000...1_000_000_000_000)),
                .optional("month", \.monthBytes, .size(10_000...1_000_000_000_000)),
                .key("anchor_day", \.anchorDay, .integer(1...28)),
            ],
            check: { budget, node, reading in
                if let day = budget.dayBytes, let month = budget.monthBytes, day > month {
                    reading.report(node.deepest(["day"]).position, below: "day", problem: "is more than month")
                }
            })
    }
}

extension Format where Value == InterfacePattern {
    fileprivate static var interfacePattern: Format {
        .text(
            expected: "an interface name or a pattern with * and ?, such as wwan*", parse: { InterfacePattern($0) },
            write: { .string($0.text) })
    }
}
