import NumbersKit
import SyncCore
import Testing

/// The numbers themselves: mistakes that programs make with numbers from outside, planted, and each of them found.
@Suite("Numbers that break arithmetic")
struct HostileNumberTests {
    /// A mistake: whether it would end the program, or lose what it was given, over a message.
    struct Mistake: CustomTestStringConvertible, Sendable {
        var name: String
        var isMet: @Sendable (JSON) -> Bool

        init(_ name: String, _ isMet: @escaping @Sendable (JSON) -> Bool) { (self.name, self.isMet) = (name, isMet) }

        var testDescription: String { name }
    }

    private static let message: JSON = [
        "head": 12, "streams": [["cursor": "7", "at": "2026-11-20T20:00:00Z", "hlc": "019aa3f2b1c0-0001-9f2c11ab", "wait": 250]],
    ]

    private static func stream(_ json: JSON) -> JSONObject? { json.object?["streams"]?.array?.first?.object }

    private static let mistakes = [
        Mistake("the next number after the greatest") { $0.object?["head"]?.int?.addingReportingOverflow(1).overflow ?? false },
        Mistake("a distance over the whole range") { $0.object?["head"]?.int?.subtractingReportingOverflow(.max).overflow ?? false },
        Mistake("seconds made milliseconds") { $0.object?["head"]?.int?.multipliedReportingOverflow(by: 1_000).overflow ?? false },
        Mistake("a count in 32 bits") { $0.object?["head"]?.int.map { Int32(exactly: $0) == nil } ?? false },
        Mistake("a count taken for unsigned") { $0.object?["head"]?.int.map { UInt64(exactly: $0) == nil } ?? false },
        Mistake("a count that a double cannot tell from the next") {
            $0.object?["head"]?.int.map { Int64(exactly: Double($0)) != $0 || $0.magnitude >= 1 << 53 } ?? false
        },
        Mistake("a number that is no Int64 taken for one") { $0.object?["head"]?.int == nil },
        Mistake("a number in a text") { stream($0)?["cursor"]?.text.flatMap { Int64($0) } == nil },
        Mistake("a wait as nanoseconds, by way of a double") {
            stream($0)?["wait"].flatMap { Double($0.json) }.map { Int64(exactly: ($0 * 1e9).rounded()) == nil } ?? false
        },
        Mistake("a stamp beyond 47 bits, shifted") {
            stream($0)?["hlc"]?.text.flatMap { HybridTime($0) }.map { Int64(exactly: $0.milliseconds << 16) == nil } ?? false
        },
        Mistake("a time after all that is shown") {
            stream($0)?["at"]?.text.flatMap { RFC3339.timestamp($0) }.map { $0.milliseconds > 4_102_444_800_000 } ?? false
        },
        Mistake("a time before the epoch, as unsigned") {
            stream($0)?["at"]?.text.flatMap { RFC3339.timestamp($0) }.map { $0.milliseconds < 0 } ?? false
        },
    ]

    @Test("Each mistake is met by one of the numbers that are put into its place, and not by the message itself", arguments: mistakes)
    func found(_ mistake: Mistake) {
        #expect(!mistake.isMet(Self.message))
        #expect(HostileNumbers.variants(of: Self.message).contains { mistake.isMet($0.json) })
    }

    @Test("Every number, time and stamp of a message has its turn, one at a time, and nothing else of the message changes")
    func places() {
        let variants = HostileNumbers.variants(of: Self.message)
        #expect(Set(variants.map(\.place)) == ["/head", "/streams/0/cursor", "/streams/0/at", "/streams/0/hlc", "/streams/0/wait"])
        for variant in variants where variant.place != "/head" { #expect(variant.json.object?["head"] == 12) }
    }
}
