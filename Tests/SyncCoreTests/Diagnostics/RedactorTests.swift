import SyncCore
import Testing

@Suite("Values that may leave the site")
struct RedactorTests {
    private static let mark = Redactor.mark

    @Test(
        "Known secrets, tokens and what URLs carry are taken out; ids, digests and words stay",
        arguments: [
            ("the token is s3cret-word here", "the token is \(mark) here"),
            ("s3cret-words3cret-word", "\(mark)\(mark)"),
            ("Bearer est_aB3dE6gH9jK2mN5pQ8rS1tU4", "Bearer \(mark)"),
            ("https://user:pass@hub.example.com/v1?key=1#x", "https://\(mark)@hub.example.com/v1?\(mark)"),
            ("https://user:pa/ss@hub.example.com/", "https://\(mark)@hub.example.com/"),
            ("see https://hub.example.com:8443/v1/probe?n=1, then", "see https://hub.example.com:8443/v1/probe?\(mark), then"),
            ("https://hub.example.com/a@b", "https://hub.example.com/a@b"),
            ("0199c3f2-a1b4-7007-9f2c-11ab00000001", "0199c3f2-a1b4-7007-9f2c-11ab00000001"),
            (
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            ),
            ("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA", mark),
            ("work_orders and audit_responses", "work_orders and audit_responses"),
            ("", ""), ("://", "://"), ("a://@", "a://\(mark)@"),
        ])
    func redacts(_ text: String, _ expected: String) {
        #expect(Redactor(secrets: ["s3cret-word", "abc"]).text(text) == expected)
    }

    @Test("In JSON every text is looked at, names of members too, and numbers stay as they were")
    func json() throws {
        let json = try JSONReader.read(#"{"a":["s3cret-word",1.10,null,true],"s3cret-word":{"b":9007199254740993}}"#)
        #expect(
            Redactor(secrets: ["s3cret-word"]).json(json).json
                == #"{"a":["[redacted]",1.10,null,true],"[redacted]":{"b":9007199254740993}}"#)
    }

    @Test("The longer of two secrets is taken out whole")
    func nested() {
        #expect(Redactor(secrets: ["secret", "secret-and-more"]).text("secret-and-more secret") == "\(Self.mark) \(Self.mark)")
    }
}

@Suite("When the hub is told what had gone wrong")
struct DiagnosticsWatchTests {
    private static func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var events: [(Int64, DiagnosticsWatch.Event)]
        var asked: Int64
        var isDue: Bool

        init(_ name: String, _ events: [(Int64, DiagnosticsWatch.Event)], asked: Int64, _ isDue: Bool) {
            (testDescription, self.events, self.asked, self.isDue) = (name, events, asked, isDue)
        }
    }

    @Test(
        "After an outage, or after something was raised; then not for an hour, and three times at most",
        arguments: [
            Case("nothing happened", [], asked: 10_000, false),
            Case("an outage of a minute is over", [(0, .reachability(.offline)), (60, .reachability(.online))], asked: 60, true),
            Case("a flap", [(0, .reachability(.offline)), (59, .reachability(.online))], asked: 60, false),
            Case("an outage that lasts", [(0, .reachability(.degraded))], asked: 10_000, false),
            Case(
                "it changed its kind meanwhile",
                [(0, .reachability(.offline)), (50, .reachability(.connecting)), (70, .reachability(.online))], asked: 70, true),
            Case("raised", [(5, .raised)], asked: 5, true),
            Case("sent", [(5, .raised), (6, .sent)], asked: 10_000, false),
            Case("raised again soon", [(5, .raised), (6, .sent), (7, .raised)], asked: 3_605, false),
            Case("raised again, an hour later", [(5, .raised), (6, .sent), (7, .raised)], asked: 3_606, true),
            Case("failed twice", [(5, .raised), (6, .failed), (7, .failed)], asked: 8, true),
            Case("failed three times", [(5, .raised), (6, .failed), (7, .failed), (8, .failed)], asked: 9, false),
            Case(
                "failed three times, then raised", [(5, .raised), (6, .failed), (7, .failed), (8, .failed), (9, .raised)], asked: 9, true),
        ])
    func due(_ example: Case) {
        var watch = DiagnosticsWatch()
        for (time, event) in example.events { watch.handle(event, now: Self.at(time)) }
        #expect(watch.isDue(at: Self.at(example.asked)) == example.isDue)
    }
}
