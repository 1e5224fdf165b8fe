import Agent
import SyncYAML
import Testing

struct ConfigurationLastGoodTests {
    @Test(
        "The kept copy means the same configuration, whatever was set",
        arguments: [
            "", ConfigurationMistakes.everyKey,
            "entities: { a.b: { fields: { \"ä\\\"\\\\x\": max, \"a: b\": min, \"#\": set, \"<\": lww } } }\nsocket: { path: \"/run/ä b'\\\"#/x\" }\n",
            "links: [{ match: \"*\" }, { match: \"e?\", budget: {} }]\nsync: { windows: [] }\npower: { low: 0%, saver: 0% }\n",
        ])
    func roundTrip(text: String) throws {
        let original =
            try text == ConfigurationMistakes.everyKey
            ? ConfigurationFixtures.loaded([ConfigurationFile(name: "all", text: text)]).configuration
            : ConfigurationFixtures.configuration(text)
        let kept = ConfigurationFile(name: "last-good.yaml", text: LastGoodConfiguration.text(original))
        let damaged = ConfigurationFile(name: "agentd.yaml", text: "")
        guard case .lastGood(let loaded, let damage) = start([damaged], kept) else {
            Issue.record("the copy was not taken")
            return
        }
        #expect(loaded.configuration == original)
        #expect(damage.description == "agentd.yaml:1:1: the file is empty")
        #expect(loaded.settings.first { $0.key == "hub.url" }?.origin.description.hasPrefix("last-good.yaml:") == true)
    }

    enum Outcome: Sendable { case loaded, lastGood, refused }

    @Test(
        "The copy is taken when a file is damaged, never when somebody made a mistake",
        arguments: [
            ("hub: { url: https://h }\n", Outcome.loaded),
            ("", .lastGood),
            ("\u{0}\u{0}\u{0}\u{0}", .lastGood),
            ("hub: { url: https://h }\n\u{0}\u{0}", .lastGood),
            ("hub: { url: https://h", .lastGood),
            ("hub:\n  url: \"https://h", .lastGood),
            // Cut inside a value: not valid any more, and the line has no end.
            ("hub:\n  url: https://h\nsync:\n  pull_interval: 6", .lastGood),
            ("hub:\n  url: https://h\nsync:\n  pull_int", .lastGood),
            ("hub:\n  url: https://h\nsync:\n  pull_interval: 6\n", .refused),
            ("hub:\n  url: https://h\nlgo: {}\n", .refused),
            ("# nothing\n", .refused),
            ("hub: [\n}\nx: 1\n", .refused),
            // The end is missing, but what is there is right: nobody can know.
            ("hub: { url: https://h }\nsync: { debounce: 1s }", .loaded),
        ])
    func decision(text: String, outcome: Outcome) throws {
        let result = start([ConfigurationFile(name: "agentd.yaml", text: text)], try copy())
        switch (result, outcome) {
        case (.loaded, .loaded), (.lastGood, .lastGood), (.refused, .refused): break
        default: Issue.record("\(result)")
        }
    }

    @Test("A damaged file in conf.d counts too, and so does a medium that cannot be read")
    func otherDamage() throws {
        let good = ConfigurationFile(name: "agentd.yaml", text: "hub: { url: https://h }\n")
        let unreadable = ConfigurationError(file: "agentd.yaml", problem: "Input/output error")
        for files in [
            [good, ConfigurationFile(name: "10.yaml", text: "")],
            [ConfigurationFile(name: "agentd.yaml", contents: .failure(unreadable), isDamaged: true)],
        ] {
            guard case .lastGood = start(files, try copy()) else {
                Issue.record("the copy was not taken")
                return
            }
        }
        let missing = ConfigurationError(file: "agentd.yaml", problem: "no such file")
        guard
            case .refused(let errors) = start(
                [ConfigurationFile(name: "agentd.yaml", contents: .failure(missing))], try copy())
        else {
            Issue.record("a missing file is no damage")
            return
        }
        #expect(errors.errors.first == missing)
    }

    @Test("A copy that is damaged itself, cut anywhere or changed by one bit, is not believed")
    func damagedCopy() throws {
        let text = LastGoodConfiguration.text(try ConfigurationFixtures.defaults())
        let bytes = Array(text.utf8)
        let damaged = ConfigurationFile(name: "agentd.yaml", text: "")
        for index in bytes.indices {
            var flipped = bytes
            flipped[index] ^= 1
            for broken in [flipped, Array(bytes[..<index])] {
                let kept = ConfigurationFile(name: "last-good.yaml", contents: .success(broken))
                guard case .refused(let errors) = start([damaged], kept) else {
                    Issue.record("believed a copy that was broken at byte \(index)")
                    return
                }
                #expect(
                    errors.errors.map(\.description) == [
                        "agentd.yaml:1:1: the file is empty", "last-good.yaml: this last good copy is damaged, too",
                    ])
            }
        }
        let none = ConfigurationFile(
            name: "last-good.yaml", contents: .failure(ConfigurationError(file: "x", problem: "no such file")))
        guard case .refused(let errors) = start([damaged], none) else {
            Issue.record("there is no copy")
            return
        }
        #expect(errors.description == "agentd.yaml:1:1: the file is empty")
    }

    private func copy() throws -> ConfigurationFile {
        ConfigurationFile(
            name: "last-good.yaml", text: LastGoodConfiguration.text(try ConfigurationFixtures.defaults()))
    }

    private func start(_ files: [ConfigurationFile], _ lastGood: ConfigurationFile) -> ConfigurationStart {
        .decide(files: files, lastGood: lastGood, accounts: ConfigurationFixtures.accounts)
    }
}
