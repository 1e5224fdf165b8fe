import SyncCore
import Testing

@Suite("RateLimit header")
struct RateLimitTests {
    struct Case: Sendable {
        var text: String
        var remaining: Int64?
        var pause: Duration?
    }

    @Test(
        "It reads the draft's form, the hardest of several policies, and nothing else",
        arguments: [
            Case(text: "r=0;t=30", remaining: 0, pause: .seconds(30)),
            Case(text: #""default";r=0;t=30"#, remaining: 0, pause: .seconds(30)),
            Case(text: #""a";r=50;t=30, "b"; r=2; t=9"#, remaining: 2, pause: .seconds(3)),
            Case(text: "r=100;t=30", remaining: 100),
            Case(text: "r=0;t=0", remaining: 0),
            Case(text: "r=0;t=999999999", remaining: 0, pause: .seconds(3_600)),
            Case(text: "r=5;t=60", remaining: 5, pause: .seconds(10)),
            Case(text: "r=-1;t=30"), Case(text: "r=0"), Case(text: "t=30"), Case(text: ""), Case(text: "soon"),
            Case(text: "r=99999999999999999999;t=1"), Case(text: String(repeating: "r=0;t=1,", count: 200)),
        ])
    func reads(_ example: Case) {
        let limit = RateLimit(example.text)
        #expect(limit?.remaining == example.remaining)
        #expect(limit?.pause == example.pause)
    }
}
