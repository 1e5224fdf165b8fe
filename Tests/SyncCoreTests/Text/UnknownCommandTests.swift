import SyncCore
import Testing

struct UnknownCommandTests {
    @Test(
        "A word that is no command is refused, with the one that was meant",
        arguments: [
            ("statsu", "There is no command statsu; did you mean status?"), ("xyz", "There is no command xyz."),
            ("status", nil), ("help", nil), ("--version", nil), (nil, nil),
        ] as [(String?, String?)])
    func complaint(_ word: String?, _ complaint: String?) {
        #expect(UnknownCommand.complaint(word, among: ["status", "sync", "plan"]) == complaint)
    }
}
