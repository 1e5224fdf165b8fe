/// Handles words of a command line that are no command of the program.
package enum UnknownCommand {
    /// - Parameters:
    ///   - words: The command line without the program's name.
    ///   - commands: The names of the commands.
    ///   - subcommands: The names of the subcommands of the command at this place of `commands`. It takes time to make them, so only those
    ///     of the given command are asked for.
    /// - Returns: `nil` where the first word is an option, or missing, or a command whose subcommand is fit.
    package static func complaint(
        _ words: some Sequence<String>, among commands: [String], subcommands: (Int) -> [String]
    ) -> String? {
        let words = Array(words.prefix(2))
        guard let word = words.first, !word.hasPrefix("-"), word != "help" else { return nil }
        guard let place = commands.firstIndex(of: word) else {
            return "There is no command \(word)" + (nearestName(to: word, among: commands).map { "; did you mean \($0)?" } ?? ".")
        }
        // A default subcommand may take words of its own, so only a word that is near a subcommand is reported.
        guard let part = words.dropFirst().first, !part.hasPrefix("-") else { return nil }
        let parts = subcommands(place)
        guard !parts.contains(part), let near = nearestName(to: part, among: parts) else { return nil }
        return "There is no command \(word) \(part); did you mean \(word) \(near)?"
    }
}
