import SyncCore
import Testing

struct UnknownCommandTests {
    @Test(
        "A word that is no command or subcommand is refused, with the one that was meant",
        arguments: [
            (["statsu"], "There is no command statsu; did you mean status?"), (["xyz"], "There is no command xyz."),
            (["status"], nil), (["help"], nil), (["--version"], nil), ([], nil),
            (["plan", "lst", "7"], "There is no command plan lst; did you mean plan list?"), (["plan", "list"], nil),
            // A default subcommand may take such a word, and a command without subcommands any.
            (["plan", "xyz"], nil), (["plan", "--all"], nil), (["status", "lst"], nil),
        ] as [([String], String?)])
    func complaint(_ words: [String], _ complaint: String?) {
        let commands: KeyValuePairs = ["status": [], "sync": [], "plan": ["list", "show"]]
        #expect(UnknownCommand.complaint(words, among: commands.map(\.key), subcommands: { commands[$0].value }) == complaint)
    }
}
