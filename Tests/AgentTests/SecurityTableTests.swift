import CSyncLinux
import Foundation
import SyncCore
import SyncHTTP
import Testing

@testable import Agent
@testable import HubServer

/// The table of the manual that says what strangers, apps, devices and others can and cannot do. Its limits are those of the code: each
/// phrase below is made from the constant that it is about, and there is no number in a row that is not in one of its phrases.
@Suite("The manual's table of what is defended")
struct SecurityTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        /// The beginning of its first cell.
        var from: String
        /// Texts that the row contains, with numbers from the code.
        var phrases: [String]
        /// Names with digits in them, which are no limits.
        var names: [String] = []
        var testDescription: String { from }
    }

    private static func kibi(_ bytes: Int) -> String { "\(bytes >> 10) KiB" }
    private static func mebi(_ bytes: Int) -> String { "\(bytes >> 20) MiB" }
    private static func number(_ value: Int) -> String {
        value < 1_000 ? "\(value)" : "\(value / 1_000),\(String(value % 1_000 + 1_000).dropFirst())"
    }
    private static func seconds(_ duration: Duration?) -> String { "\(duration?.components.seconds ?? -1) s" }
    private static func minutes(_ duration: Duration) -> String { "\(duration.components.seconds / 60) minutes" }
    private static func year(_ time: Timestamp) -> String { String(time.description.prefix(4)) }

    private static let hub = HubService.defaultLimits
    /// With fewer, a user has a place more.
    private static var fewConnections: String {
        let places = (0...9).map { local.localPlaces(own: $0, isRoot: false) }
        return ["none", "one", "two", "three", "four"][min(4, places.firstIndex { $0 < places[0] } ?? 0)]
    }
    private static let local = HTTPServerLimits.localAPI
    /// The last time that is plausible.
    private static let lastTime = Timestamp(milliseconds: Timestamp.plausible.upperBound.milliseconds - 1)

    static let rows = [
        Row(
            from: "a stranger at the hub's port",
            phrases: [
                "hold \(hub.strangersPerAddress ?? 0) connections for each IPv4 address or IPv6 /64, \(hub.strangers ?? 0) in all, for \(seconds(hub.firstHeadTime)) each",
                "heads of \(kibi(hub.headBytes)) and bodies of \(kibi(Hub.enrolmentBytes))",
                "\(HubWorker.viewsAtOnce) fresh `/metrics` at once, then \(Int(HubWorker.viewsPerSecond)) a second",
                "\(hub.handshakesPerAddress?.atOnce ?? 0) TLS handshakes at once, then \(Int(hub.handshakesPerAddress?.perSecond ?? 0)) a second, for each of "
                    + "\(number(HandshakeLimit.addressesMax)) addresses",
                "Failed enrolments: \(AttemptLimit.addressSize), then one every \(Int(1 / AttemptLimit.addressPerSecond)) s for an address; "
                    + "\(AttemptLimit.allSize), then \(Int(AttemptLimit.allPerSecond)) a second in all",
            ]),
        Row(from: "a caller of the address of `--metrics`", phrases: ["hold \(MetricsHandler.connectionsMax) connections"]),
        Row(
            from: "a local user without a role",
            phrases: [
                "open \(local.connectionsPerUser) connections", "attach \(SYNC_RIGHTS_MAX) descriptors",
                "a head has \(seconds(local.headTime))",
                "\(local.connectionsKept) connections are kept for users with fewer than \(fewConnections), \(local.connectionsKeptForRoot) for root",
            ]),
        Row(
            from: "a local app",
            phrases: [
                "\(EventStreams.perUserMax) streams of events", "chains of \(number(Limits.chainLinks)) dependencies",
                "documents of \(kibi(Limits.documentBytes)), \(Limits.jsonDepth) levels and \(number(Limits.documentFields)) fields, "
                    + "\(kibi(Limits.mutationBytes)) a change",
            ]),
        Row(from: "another user of the hub's machine", phrases: ["the hub serves root and its own user alone"]),
        Row(from: "the network", phrases: ["up to \(minutes(HubReply.foreignWaitMax)) at a time"], names: ["TLS 1.2"]),
        Row(
            from: "a device with a stolen token",
            phrases: [
                "\(Admission.deviceRequestsMax) requests and \(mebi(Admission.deviceBytesMax)) of bodies under way",
                "HMAC-SHA-256, \(HubSignature.bytes) bytes", "in proportion to \(mebi(Limits.hubRequestBytes))",
            ]),
        Row(
            from: "a hub that was taken over",
            phrases: [
                "two in one cycle: the device waits \(seconds(SyncEngine.historyWait)), then ever longer",
                "(\(year(Timestamp.plausible.lowerBound)) to \(year(lastTime)), steps of more than \(minutes(HybridClock.aheadMax)) need several answers)",
                "more than \(mebi(Limits.messageMemoryBytes)) of memory an answer",
                "beyond \(UploadMachine.spentMax(size: 1) - UploadMachine.spentMax(size: 0)) × the file and \(mebi(Int(UploadMachine.spentMax(size: 0))))",
            ]),
        Row(
            from: "an existing backend, a tus server or an object store",
            phrases: ["after \(RestCursor.emptyMax) pages without a record", "from listening (\(seconds(ObjectBlobs.trialTime)))"],
            // Brent's bound, which the tests of the circles hold.
            names: ["within three rounds"]),
        Row(from: "a writer of documents or names", phrases: []),
        Row(from: "a thief of the device", phrases: []),
        Row(from: "a copier of the card", phrases: []),
        Row(from: "a device that has lost a scope", phrases: []),
        Row(from: "root on the machine", phrases: []),
    ]

    private static func page() throws -> [String] {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return try String(contentsOf: root.appendingPathComponent("deploy/docs/security.md"), encoding: .utf8).split(separator: "\n").map(
            String.init)
    }

    /// The rows of the table as they stand in the manual.
    private static func table() throws -> [String] {
        let lines = try page()
        let head = try #require(lines.firstIndex { $0.hasPrefix("| attacker | can | cannot") })
        return Array(lines[(head + 2)...].prefix { $0.hasPrefix("|") })
    }

    /// Numbers that are written out are compared like the others, but for "one", which is a pronoun as well.
    private static let words = [
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "hundred", "thousand",
    ]

    /// Returns the differences between a row and the code, in both directions.
    static func differences(_ row: Row, in line: String) -> [String] {
        var found: [String] = []
        var rest = line
        for phrase in row.phrases {
            if let place = rest.range(of: phrase) { rest.removeSubrange(place) } else { found.append("it does not say: \(phrase)") }
        }
        for name in row.names { rest = rest.replacingOccurrences(of: name, with: "") }
        let numbers =
            rest.split { !$0.isNumber && $0 != "," && $0 != "." }.filter { $0.contains(where: \.isNumber) }
            + rest.split { !$0.isLetter }.filter { words.contains($0.lowercased()) }
        if !numbers.isEmpty { found.append("numbers that nothing stands for: \(numbers.joined(separator: " "))") }
        return found
    }

    @Test("Each number in it is the one of the code", arguments: rows)
    func row(_ row: Row) throws {
        let line = try #require(try Self.table().first { $0.hasPrefix("| \(row.from)") }, "no row begins like this")
        #expect(Self.differences(row, in: line) == [])
    }

    @Test("Each number in the paragraph about tokens is the one of the code")
    func numbersAboutTokensAreThoseOfTheCode() throws {
        let page = try Self.page()
        let start = try #require(page.firstIndex { $0.hasPrefix("Secrets are never values of the configuration") })
        let text = page[start...].prefix { !$0.hasPrefix("#") }.joined(separator: " ")
        let days = Hub.Settings().tokenGrace.components.seconds / 86_400
        let row = Row(from: "Secrets", phrases: ["for \(days) days after its end (`--token-grace`)"], names: ["pump-17"])
        #expect(Self.differences(row, in: text) == [])
    }

    @Test("Each row is compared")
    func all() throws {
        #expect(try Self.table().count == Self.rows.count)
    }

    @Test("A changed limit, and a number without a source in the code, would be seen")
    func control() {
        let row = Row(from: "x", phrases: ["for 20 s each"], names: ["TLS 1.2"])
        #expect(Self.differences(row, in: "| x | for 20 s each, TLS 1.2 | |") == [])
        #expect(Self.differences(row, in: "| x | for 30 s each | |").count == 2)
        #expect(Self.differences(row, in: "| x | for 20 s each, and 7 more | |") == ["numbers that nothing stands for: 7"])
        #expect(Self.differences(row, in: "| x | for 20 s each, Three times | |") == ["numbers that nothing stands for: Three"])
    }
}
