/// The first word of a command line that is no command of the program.
package enum UnknownCommand {
    /// - Parameter names: Of the commands.
    /// - Returns: `nil` where the word is a command, an option, or not there.
    package static func complaint(_ word: String?, among names: [String]) -> String? {
        guard let word, !word.hasPrefix("-"), word != "help", !names.contains(word) else { return nil }
        return "There is no command \(word)" + (nearestName(to: word, among: names).map { "; did you mean \($0)?" } ?? ".")
    }
}
