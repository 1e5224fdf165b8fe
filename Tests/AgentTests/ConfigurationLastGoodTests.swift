import Agent
import Glibc
import LocalAPI
import SyncCore
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

    @Test("An agent that runs as the user 65534 (nobody) reads its own kept copy again")
    func copyOfNobody() throws {
        let accounts = Accounts(ownUser: 65_534, user: { ["root": 0, "nobody": 65_534][$0] }, group: { _ in nil })
        let file = ConfigurationFile(name: "agentd.yaml", text: "hub: { url: https://h }\n")
        let original = try ConfigurationLoader.read([file], accounts: accounts).configuration
        #expect(original.access.rules.map(\.role) == [.admin, .admin])
        let kept = ConfigurationFile(name: "last-good.yaml", text: LastGoodConfiguration.text(original))
        let damaged = ConfigurationFile(name: "agentd.yaml", text: "")
        let start = ConfigurationStart.decide(files: [damaged], lastGood: kept, accounts: accounts)
        guard case .lastGood(let loaded, _) = start else {
            Issue.record("\(start)")
            return
        }
        #expect(loaded.configuration == original)
    }

    enum Outcome: Sendable { case loaded, lastGood }

    @Test(
        "The copy is taken whenever the files are not accepted, damaged or wrongly written",
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
            ("hub:\n  url: https://h\nsync:\n  pull_interval: 6\n", .lastGood),
            ("hub:\n  url: https://h\nlgo: {}\n", .lastGood),
            ("# nothing\n", .lastGood),
            ("hub: [\n}\nx: 1\n", .lastGood),
            // The end is missing, but the rest is valid YAML, so the loss cannot be noticed.
            ("hub: { url: https://h }\nsync: { debounce: 1s }", .loaded),
        ])
    func decision(text: String, outcome: Outcome) throws {
        let result = start([ConfigurationFile(name: "agentd.yaml", text: text)], try copy())
        switch (result, outcome) {
        case (.loaded, .loaded), (.lastGood, .lastGood): break
        default: Issue.record("\(result)")
        }
    }

    @Test("A file in conf.d counts too, and so does a file that cannot be read or is gone")
    func otherDamage() throws {
        let good = ConfigurationFile(name: "agentd.yaml", text: "hub: { url: https://h }\n")
        let unreadable = ConfigurationError(file: "agentd.yaml", problem: "Input/output error")
        let missing = ConfigurationError(file: "agentd.yaml", problem: "no such file")
        for files in [
            [good, ConfigurationFile(name: "10.yaml", text: "")],
            [ConfigurationFile(name: "agentd.yaml", contents: .failure(unreadable))],
            [ConfigurationFile(name: "agentd.yaml", contents: .failure(missing))],
        ] {
            guard case .lastGood = start(files, try copy()) else {
                Issue.record("the copy was not taken")
                return
            }
        }
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

    /// The stamp of a file that was written long before it was read.
    private static let stamp = FileStamp(
        inode: 1 << 63, sizeBytes: 30, modified: 1_763_700_000_000_000_000, changed: 1_763_700_000_000_000_001)

    private func file(_ text: String, _ stamp: FileStamp? = ConfigurationLastGoodTests.stamp) -> ConfigurationFile {
        ConfigurationFile(name: "agentd.yaml", contents: .success(Array(text.utf8)), stamp: stamp)
    }

    /// Returns the copy that is kept after a start with this file.
    private func kept(after file: ConfigurationFile) throws -> ConfigurationFile {
        guard case .loaded(let loaded) = start([file], ConfigurationFile(name: "none", text: "")) else {
            throw ConfigurationErrors([ConfigurationError(file: file.name, problem: "not loaded")])
        }
        return ConfigurationFile(
            name: "last-good.yaml", text: LastGoodConfiguration.text(loaded.configuration, sources: loaded.sources))
    }

    @Test("For every bit that the disk flips in an unwritten file, the last good one is taken, never the damaged one")
    func flippedBits() throws {
        let text = "hub: { url: https://h, device: dev-1 }\nsync: { debounce: 1s }\n"
        let kept = try kept(after: file(text))
        guard case .loaded(let good) = start([file(text)], kept) else {
            Issue.record("the file is as it was")
            return
        }
        for place in Array(text.utf8).indices {
            for bit in 0..<8 {
                var bytes = Array(text.utf8)
                bytes[place] ^= 1 << UInt8(bit)
                let flipped = ConfigurationFile(name: "agentd.yaml", contents: .success(bytes), stamp: Self.stamp)
                guard case .lastGood(let loaded, let damage) = start([flipped], kept) else {
                    Issue.record("bit \(bit) of byte \(place)")
                    return
                }
                #expect(loaded.configuration == good.configuration && loaded.sources == good.sources)
                #expect(damage.description.contains("so the disk is faulty"))
            }
        }
    }

    @Test("An edit by a person is judged as usual, right or wrong, also when the size is the same")
    func edits() throws {
        let text = "hub: { url: https://h, device: dev-1 }\n"
        let kept = try kept(after: file(text))
        let (right, wrong) = ("hub: { url: https://h, device: dev-3 }\n", "hub: { url: https://h, devixe: dev-1 }\n")
        var stamps: [FileStamp?] = [nil]
        for change in [\FileStamp.modified, \.changed, \.sizeBytes] {
            var stamp = Self.stamp
            stamp[keyPath: change] += 1
            stamps.append(stamp)
        }
        var elsewhere = Self.stamp
        elsewhere.inode += 1
        stamps.append(elsewhere)
        for stamp in stamps {
            guard case .loaded(let loaded) = start([file(right, stamp)], kept) else {
                Issue.record("\(String(describing: stamp))")
                return
            }
            #expect(loaded.configuration.hub.device?.text == "dev-3")
            guard case .lastGood(let copy, let errors) = start([file(wrong, stamp)], kept) else {
                Issue.record("\(String(describing: stamp))")
                return
            }
            #expect(copy.configuration.hub.device?.text == "dev-1" && errors.description.contains("devixe"))
        }
        // The copy of an earlier version knows no stamps.
        guard case .loaded = start([file(right)], try copy()) else {
            Issue.record("nothing is known of the file")
            return
        }
    }

    @Test("A file that was written a moment ago has no stamp: a second write in the same tick would leave the same one")
    func freshFiles() {
        func facts(_ nanoseconds: Int) -> stat {
            var facts = stat()
            (facts.st_ino, facts.st_size) = (7, 30)
            facts.st_mtim = timespec(tv_sec: 1_763_700_000, tv_nsec: nanoseconds)
            facts.st_ctim = facts.st_mtim
            return facts
        }
        func stamp(_ nanoseconds: Int, readAt now: (Int, Int)) -> FileStamp? {
            FileStamp(facts(nanoseconds), now: Int64(now.0) * 1_000_000_000 + Int64(now.1))
        }
        #expect(stamp(500_000_000, readAt: (1_763_700_000, 510_000_000)) == nil)
        #expect(stamp(500_000_000, readAt: (1_763_700_000, 530_000_000)) != nil)
        // A file system that knows whole seconds only.
        #expect(stamp(0, readAt: (1_763_700_001, 900_000_000)) == nil)
        #expect(stamp(0, readAt: (1_763_700_003, 0)) != nil)
        // The clock has gone back since.
        #expect(stamp(500_000_000, readAt: (1, 0)) != nil)
    }

    private func copy() throws -> ConfigurationFile {
        ConfigurationFile(
            name: "last-good.yaml", text: LastGoodConfiguration.text(try ConfigurationFixtures.defaults()))
    }

    private func start(_ files: [ConfigurationFile], _ lastGood: ConfigurationFile) -> ConfigurationStart {
        .decide(files: files, lastGood: lastGood, accounts: ConfigurationFixtures.accounts)
    }
}
