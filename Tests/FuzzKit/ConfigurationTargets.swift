import Agent
import SyncCore
import SyncYAML

extension FuzzTarget {
    /// The configuration file. An accepted file is kept as the last good copy and means the same when that is read. A refusal names a place
    /// of the file.
    static let configuration = FuzzTarget("configuration", lengthMax: 8_192) { bytes in
        let file = ConfigurationFile(name: "agentd.yaml", contents: .success(bytes))
        let loaded: LoadedConfiguration
        do throws(ConfigurationErrors) {
            loaded = try ConfigurationLoader.read([file], accounts: accounts)
        } catch {
            try claim(!error.errors.isEmpty, "refused without a word")
            for one in error.errors {
                try claim((0...(1 + bytes.count)).contains(one.line), "refused at line \(one.line)")
                try claim(one.description.utf8.count < 4_096, "an error of \(one.description.utf8.count) bytes")
            }
            return
        }
        let kept = Array(LastGoodConfiguration.text(loaded.configuration).utf8)
        let again: AgentConfiguration
        do throws(ConfigurationErrors) {
            again = try LastGoodConfiguration.configuration(kept, file: "last-good.yaml", accounts: accounts)
        } catch {
            throw Broken("the kept copy is refused: \(error)")
        }
        try claim(again == loaded.configuration, "the kept copy means something else:\n\(kept[...].asText)")
    }

    private static let accounts = Accounts(
        ownUser: 991, user: { ["root": 0, "agentd": 991, "ines": 1_001][$0] }, group: { ["agentd": 900, "inspectors": 901][$0] })

    /// A configuration from a hub changes only the keys that a hub may set.
    static let hubConfiguration = FuzzTarget("hub-configuration", lengthMax: 8_192) { bytes in
        let server: ServerConfiguration
        do throws(ConfigurationErrors) {
            server = try ServerConfiguration(bytes, release: AgentRelease("0.1.0"))
        } catch {
            try claim(!error.errors.isEmpty, "refused without a word")
            return
        }
        let own = ConfigurationFile(name: "agentd.yaml", text: "hub: { url: \"https://hub.example.com\" }\nlocked: [ links ]\n")
        do throws(ConfigurationErrors) {
            let alone = try ConfigurationLoader.read([own], accounts: accounts).configuration
            let both = try ConfigurationLoader.read([own], accounts: accounts, server: server).configuration
            guard both.hub == alone.hub, both.socket == alone.socket, both.store == alone.store, both.links == alone.links else {
                throw ConfigurationErrors([ConfigurationError(file: "", problem: "changed")])
            }
        } catch {
            try claim(error.errors.first?.problem != "changed", "a hub has changed what is not its own to say")
        }
    }

    /// Rules for documents, which come from a hub: the first line is a schema, the second a document. Nothing that a schema
    /// says may take long or trap. The two parts in which a change is judged find a fault exactly when the whole schema does, and a change
    /// that changes nothing brings no fault.
    static let schema = FuzzTarget("schema", lengthMax: 2_048) { bytes in
        let parts = bytes.split(separator: 10, maxSplits: 1)
        guard parts.count == 2 else { return }
        if let pattern = LinearPattern(parts[0].asText) {
            let text = parts[1].asText
            let found = pattern.matches(text)
            // A match may stand anywhere: in a longer text it is still there, unless the pattern asks for an end.
            if found, !pattern.source.utf8.contains(where: { "^$[\\".utf8.contains($0) }) {
                try claim(pattern.matches("a" + text + "a"), "\(pattern.source) is no longer found")
            }
        }
        guard let json = try? JSONReader.read(Array(parts[0])), let document = (try? JSONReader.read(Array(parts[1])))?.object
        else { return }
        do throws(Problem) {
            let schema = try DocumentSchema(json)
            let content = MutationContent(.create, data: document)
            let faults = schema.faults(in: content)
            try claimPlaces(faults)
            let same = try DocumentSchema(schema.json)
            guard same == schema, same.faults(in: content) == faults else {
                throw Problem("broken", status: 0, detail: "read twice, two schemas")
            }
            let between = schema.faults(between: document, before: nil)
            try claimPlaces(between)
            let whole = schema.schema.judge(.object(document), nullIsMissing: true)
            guard whole.steps <= 3 * JSONSchema.stepsMax else { throw Problem("broken", status: 0, detail: "\(whole.steps) steps") }
            // One part may be too costly where the whole stops at the first fault.
            guard !whole.isTooCostly, !(faults + between).contains(where: { $0.detail.hasPrefix("cannot be judged") }) else { return }
            guard whole.fits == (faults.isEmpty && between.isEmpty) else {
                throw Problem("broken", status: 0, detail: "as a whole \(whole.faults), in parts \(faults) and \(between)")
            }
            guard schema.faults(between: document, before: document).isEmpty else {
                throw Problem("broken", status: 0, detail: "a change of nothing brings a fault")
            }
        } catch {
            try claim(error.code != "broken", error.detail)
        }
    }

    private static func claimPlaces(_ faults: [Problem.Pointer]) throws(Problem) {
        for fault in faults where !fault.pointer.hasPrefix("/data") {
            throw Problem("broken", status: 0, detail: "a fault at \(fault.pointer)")
        }
    }
}
