import SyncLinux
import Testing

struct RepeatedOptionTests {
    @Test(
        arguments: [
            (["get", "readings", "--json"], nil),
            (["get", "--json", "--json"], "--json"),
            (["get", "--socket=a", "--socket", "b"], "--socket"),
            (["watch", "--type", "sync", "--type", "link"], nil),
            (["enqueue", "readings", "--data", "-", "--", "--data"], nil),
            // A value may look like anything that does not begin with two dashes.
            (["query", "a", "--limit", "-5", "--limit=3"], "--limit"),
            ([], nil),
        ] as [([String], String?)])
    func theSecondOneIsFound(arguments: [String], repeated: String?) {
        #expect(RepeatedOption.first(in: arguments, repeatable: ["--type"]) == repeated)
    }
}
