/// Handles words of a command line that are no command of the program.
package enum UnknownCommand {
    /// - Parameters:
    ///   - words: The command line without the program's name.
    ///   - commands: The commands, each with its subcommands.
    /// - Returns: `nil` where the first word is an option, or missing, or a command whose subcommand is fit.
    package static func complaint(_ words: some Sequence<String>, among commands: [(name: String, parts: [String])]) -> String? {
        let words = Array(words.prefix(2))
        guard let word = words.first, !word.hasPrefix("-"), word != "help" else { return nil }
        guard let parts = commands.first(where: { $0.name == word })?.parts else {
            return "There is no command \(word)"
                + (nearestName(to: word, among: commands.map(\.name)).map { "; did you mean \($0)?" } ?? ".")
        }
        // A default subcommand may take words of its own, so only a word that is near a subcommand is reported.
        guard let part = words.dropFirst().first, !part.hasPrefix("-"), !parts.contains(part),
            let near = nearestName(to: part, among: parts)
        else { return nil }
        return "There is no command \(word) \(part); did you mean \(word) \(near)?"
    }
}
