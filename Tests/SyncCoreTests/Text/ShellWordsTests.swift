import SyncCore
import Testing

@Suite("Commands for a shell")
struct ShellWordsTests {
    @Test(
        "A word that a shell would read otherwise is in quotes",
        arguments: [
            (["agentctl", "query", "work_orders", "--where", "status:eq:open"], "agentctl query work_orders --where status:eq:open"),
            (["--where", "note:eq:two words"], "--where 'note:eq:two words'"), (["it's"], "'it'\\''s'"), ([""], "''"),
            (["$HOME", "a;b", "*"], "'$HOME' 'a;b' '*'"), (["--sort", "-due"], "--sort -due"),
        ])
    func line(_ words: [String], _ expected: String) {
        #expect(ShellWords.line(words) == expected)
    }
}
