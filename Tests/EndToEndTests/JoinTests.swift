import Foundation
import Glibc
import Testing

extension EndToEnd {
    /// `agentctl join` against the real hub, into a folder: the machine of the tests is not to be changed.
    @Suite("Joining a hub")
    struct JoinTests {
        private func files(_ folder: String) -> [String: String] {
            let names = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
            return names.reduce(into: [:]) { found, name in
                var isFolder: ObjCBool = false
                _ = FileManager.default.fileExists(atPath: "\(folder)/\(name)", isDirectory: &isFolder)
                if !isFolder.boolValue { found[name] = try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8) }
            }
        }

        @Test("A one-time token joins, twice is once, and a wrong token or address writes nothing")
        func join() async throws {
            try await Stand.with(agent: false) { stand in
                let place = "\(stand.folder)/image"
                let hub = await stand.hubURL
                for (url, token, words) in [
                    (hub, "est_wrong", "the hub refuses the token"), (hub, "ese_wrong", "the hub refuses the token"),
                    ("http://127.0.0.1:1", "est_wrong", "look at the URL, and at the network"),
                    (hub + "/v1", "est_wrong", "leave out /v1 at the end of the URL"),
                ] {
                    let refused = try await stand.agentctl("join", url, token, "--root", place, "--device", "pump-3")
                    #expect(refused.status == 1 && refused.talk.contains(words), "\(refused.talk)")
                    #expect(refused.talk.contains("Nothing was changed") && files(place).isEmpty)
                }
                for (proxy, words) in [("10.0.0.1:3128", "http://HOST:PORT"), ("http://me:pw@10.0.0.1:3128", "(--proxy-credentials)")] {
                    let refused = try await stand.agentctl("join", hub, "est_wrong", "--root", place, "--proxy", proxy)
                    #expect(refused.status == 64 && refused.talk.contains(words), "\(refused.talk)")
                    #expect(!refused.talk.contains("expected https://") && files(place).isEmpty)
                }
                let made = try await Child.run(
                    [Programs.agenthub, "token", "enrol", "pump-3", "--data", "\(stand.folder)/hub"], in: stand.folder)
                let token = made.text.trimmingCharacters(in: .whitespacesAndNewlines)
                try Stand.write(token + "\n", to: "\(stand.folder)/one-time")
                let joined = try await stand.agentctl("join", hub, "@\(stand.folder)/one-time", "--root", place)
                #expect(joined.status == 0, "\(joined.talk)")
                #expect(joined.text.contains("device      pump-3") && joined.text.contains("90-join.yaml written"), "\(joined.text)")
                let found = files(place)
                #expect(found["etc/credstore/hub-token"] == token + "\n" && found.count == 2, "\(found)")
                var status = stat()
                #expect(stat("\(place)/etc/credstore/hub-token", &status) == 0 && status.st_mode & 0o777 == 0o600)
                // The written file is a valid configuration.
                try Stand.write("# The rest is in conf.d.\n", to: "\(place)/etc/agentd/agentd.yaml")
                let checked = try await Child.run([Programs.agentd, "--check", "--config", "\(place)/etc/agentd/agentd.yaml"], in: place)
                #expect(checked.status == 0, "\(checked.talk)")
                let again = try await stand.agentctl("join", hub, token, "--root", place)
                #expect(again.status == 0 && again.text.contains("nothing was changed"), "\(again.text)\(again.talk)")
                // Nothing of it has used up the one-time token.
                let other = try await stand.agentctl("join", hub, token, "--root", "\(stand.folder)/other")
                #expect(other.status == 0, "\(other.talk)")
                // A relative folder is one in the folder of the caller.
                let relative = try await Child.run(
                    ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", stand.folder, Programs.agentctl, "join", hub, token, "--root", "here"],
                    environment: ["AGENTD_SOCKET": "\(stand.folder)/none"], in: stand.folder)
                #expect(relative.status == 0, "\(relative.talk)")
                #expect(files("\(stand.folder)/here").keys.sorted() == ["etc/agentd/conf.d/90-join.yaml", "etc/credstore/hub-token"])
            }
        }

        @Test(
            "An argument of the wrong form is refused before any request",
            arguments: [["join"], ["join", "hub", "t"], ["join", "https://h", "a b"]])
        func usage(_ words: [String]) async throws {
            let refused = try await Child.run([Programs.agentctl] + words + ["--root", "/nonexistent"], in: "/tmp")
            #expect(refused.status == 64, "\(refused.talk)")
        }
    }
}
