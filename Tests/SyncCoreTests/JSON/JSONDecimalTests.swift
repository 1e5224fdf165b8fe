import SyncCore
import Testing

@Suite("JSON numbers as exact decimals")
struct JSONDecimalTests {
    struct Sum: Sendable {
        var left: String
        var right: String
        var sum: String?
    }

    @Test(
        "Adding is exact and writes plain notation",
        arguments: [
            Sum(left: "0.1", right: "0.2", sum: "0.3"),
            Sum(left: "1", right: "-1", sum: "0"),
            Sum(left: "-0.5", right: "0.25", sum: "-0.25"),
            Sum(left: "999", right: "1", sum: "1000"),
            Sum(left: "1e3", right: "1", sum: "1001"),
            Sum(left: "1e-3", right: "1", sum: "1.001"),
            Sum(left: "9007199254740993", right: "1", sum: "9007199254740994"),
            Sum(left: "-12.50", right: "-0.5", sum: "-13"),
            Sum(left: "0", right: "0.10", sum: "0.1"),
            Sum(left: "1e400", right: "1", sum: nil),
            Sum(left: "1e-500", right: "1", sum: nil),
            Sum(left: "1e9223372036854775807", right: "1e-9223372036854775808", sum: nil),
        ])
    func adds(_ example: Sum) throws {
        let left = try Self.number(example.left), right = try Self.number(example.right)
        #expect(left.adding(right)?.source == example.sum)
        #expect(right.adding(left)?.source == example.sum)
    }

    @Test("Sums and comparisons agree with exact arithmetic on random decimals")
    func agreesWithExactArithmetic() throws {
        var random = SeededRandom(seed: 3)
        for _ in 0..<3_000 {
            // Both scaled by 10^6, so that Int64 holds them exactly.
            let a = Int64.random(in: -4_000_000_000_000...4_000_000_000_000, using: &random)
            let b = Int64.random(in: -4_000_000_000_000...4_000_000_000_000, using: &random) / (Bool.random(using: &random) ? 1 : 1_000_000)
            let left = try Self.number(Self.text(a, using: &random)), right = try Self.number(Self.text(b, using: &random))
            let sum = try #require(left.adding(right))
            #expect(sum == (try Self.number(Self.text(a + b, using: &random))))
            #expect((left < right) == (a < b))
            #expect((left == right) == (a == b))
            #expect(sum.adding(right.negated) == left)
        }
    }

    @Test(
        "Order is exact for any length and any exponent",
        arguments: [
            ("-1", "0"), ("0", "1e-400"), ("1e400", "1.0000001e400"), ("9007199254740992", "9007199254740993"),
            ("-1e400", "-1e399"), ("0.1", "0.10000000000000000000001"), ("-2", "-1.9"), ("99", "100"),
            ("1e9223372036854775806", "2e9223372036854775806"), ("1e-9223372036854775807", "1"),
        ])
    func ordered(_ smaller: String, _ larger: String) throws {
        let left = try Self.number(smaller), right = try Self.number(larger)
        #expect(left < right)
        #expect(!(right < left))
        #expect(left != right)
    }

    @Test(
        "An exponent at the edge of any integer type is only a number",
        arguments: [
            "1e9223372036854775807", "10e9223372036854775807", "1.5e-9223372036854775807", "1.5e-9223372036854775808",
            "10e99999999999999999999999", "0.00001e-99999999999999999999999", "0e9223372036854775807",
            "1234567.89e4611686018427387904",
        ])
    func extremeExponents(_ text: String) throws {
        let number = try Self.number(text)
        #expect(number == number.negated.negated)
        #expect(number.source == text)
        #expect(number.hashValue == (try Self.number(text)).hashValue)
        #expect(number.int == nil || number.int == 0)
        for other in ["0", "1", "-1e9223372036854775807", "1e-9223372036854775807"] {
            let its = try Self.number(other)
            // Exactly one of the three holds, and nothing traps.
            #expect([number < its, number == its, its < number].filter { $0 }.count == 1)
            _ = number.adding(its)
        }
    }

    private struct NotANumber: Error {
        var text: String
    }

    private static func number(_ text: String) throws -> JSONNumber {
        guard case .number(let number) = try JSONReader.read(text) else { throw NotANumber(text: text) }
        return number
    }

    /// `scaled / 10^6` in one of several notations.
    private static func text(_ scaled: Int64, using random: inout SeededRandom) -> String {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: return "\(scaled)e-6"
        case 1: return "\(scaled)00E-8"
        default:
            let magnitude = scaled.magnitude
            let fraction = String(magnitude % 1_000_000)
            let zeros = String(repeating: "0", count: 6 - fraction.utf8.count)
            return (scaled < 0 ? "-" : "") + "\(magnitude / 1_000_000)." + zeros + fraction
        }
    }
}
