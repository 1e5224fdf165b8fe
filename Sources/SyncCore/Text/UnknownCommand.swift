/// Handles a first word of a command line that is no command of the program.
package enum UnknownCommand {
    /// - Parameter names: Names of the commands.
    /// - Returns: `nil` where the word is a command, an option, or missing.
    package static func complaint(_ word: String?, among names: [String]) -> String? {
        guard let word, !word.hasPrefix("-"), word != "help", !names.contains(word) else { return nil }
        return "There is no command \(word)" + (nearestName(to: word, among: names).map { "; did you mean \($0)?" } ?? ".")
    }

    /// Does the same for the subcommands of a command. Its default subcommand may take words of its own, so only a word that is near a
    /// subcommand is reported.
    ///
    /// - Parameter parts: The subcommands of each command that has some.
    package static func complaint(_ words: [String], among parts: [String: [String]]) -> String? {
        guard words.count > 1, let names = parts[words[0]], !names.isEmpty, !names.contains(words[1]), !words[1].hasPrefix("-"),
            let near = nearestName(to: words[1], among: names)
        else { return nil }
        return "There is no command \(words[0]) \(words[1]); did you mean \(words[0]) \(near)?"
    }
}
