/// A check for options that are given twice. Such an option has two meanings, and using the last would hide one: usage error, exit 64.
package enum RepeatedOption {
    /// - Parameters:
    ///   - arguments: Arguments of the command line, without the program's name.
    ///   - repeatable: Options that make a list.
    /// - Returns: The first option, with its dashes, that comes a second time before `--`.
    package static func first(in arguments: some Sequence<String>, repeatable: Set<String> = []) -> String? {
        var seen: Set<Substring> = []
        for argument in arguments.prefix(while: { $0 != "--" }) where argument.hasPrefix("--") {
            let name = argument.prefix { $0 != "=" }
            if !repeatable.contains(String(name)), !seen.insert(name).inserted { return String(name) }
        }
        return nil
    }

    /// The sentence for people about the fault.
    package static func complaint(_ option: String) -> String { "the option \(option) is given twice: once was expected" }
}
