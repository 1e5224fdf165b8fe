import LocalAPI
import SyncCore
import Testing

@Suite("The files of a diagnosis") struct DiagnosticsBundleTests {
    private static func bundle() -> DiagnosticsBundle {
        DiagnosticsBundle(
            device: DeviceID(trusted: "gw:17"), at: Timestamp(milliseconds: 1_795_216_800_000), redactor: Redactor(secrets: ["s3cret-word"])
        )
    }

    /// The files in a tar archive, read by the rules of its format.
    private static func files(_ archive: [UInt8]) -> [(name: String, bytes: [UInt8])] {
        var files: [(String, [UInt8])] = []
        var at = 0
        while at + 512 <= archive.count, archive[at] != 0 {
            let head = Array(archive[at..<at + 512])
            func octal(_ offset: Int, _ size: Int) -> Int {
                Int(String(decoding: head[offset..<offset + size].prefix { $0 != 0 && $0 != 32 }, as: UTF8.self), radix: 8) ?? -1
            }
            let sum = head.enumerated().reduce(0) { $0 + ((148..<156).contains($1.offset) ? 32 : Int($1.element)) }
            #expect(octal(148, 8) == sum)
            #expect(octal(100, 8) == 0o600)
            #expect(Array(head[257..<262]) == Array("ustar".utf8))
            let size = octal(124, 12)
            files.append(
                (String(decoding: head.prefix(100).prefix { $0 != 0 }, as: UTF8.self), Array(archive[(at + 512)..<(at + 512 + size)])))
            at += 512 + (size + 511) / 512 * 512
        }
        #expect(archive.count - at == 1_024)
        return files
    }

    @Test("It is a tar file with one folder, whose files are redacted")
    func archive() {
        var bundle = Self.bundle()
        bundle.add("a.json", json: ["x": "s3cret-word", "n": 1])
        bundle.add("b.txt", text: "one\nhttps://u:p@h/?q\n")
        bundle.add("c.ndjson", lines: [["n": 1], ["n": 2]])
        let files = Self.files(bundle.archive)
        #expect(files.map(\.name) == ["agentd-gw_17/a.json", "agentd-gw_17/b.txt", "agentd-gw_17/c.ndjson"])
        #expect(
            files.map { String(decoding: $0.bytes, as: UTF8.self) } == [
                "{\n  \"x\": \"[redacted]\",\n  \"n\": 1\n}\n", "one\nhttps://[redacted]@h/?[redacted]\n\n", "{\"n\":1}\n{\"n\":2}\n",
            ])
    }

    @Test("It never grows beyond its limits: the oldest lines go first, and it says so")
    func limits() throws {
        var bundle = Self.bundle()
        let lines = (0..<20_000).map { JSON.object(["n": .int($0), "text": .string(String(repeating: "x", count: 100))]) }
        for name in ["a", "b", "c", "d"] { bundle.add(name, lines: lines) }
        let files = bundle.files
        #expect(files.reduce(0) { $0 + $1.bytes.count } <= DiagnosticsBundle.bytesMax)
        let first = try #require(files.first)
        #expect(first.bytes.count <= DiagnosticsBundle.fileBytesMax)
        let text = String(decoding: first.bytes, as: UTF8.self)
        #expect(text.hasPrefix("# "))
        #expect(text.contains("\"n\":19999,"))
        #expect(!text.contains("\"n\":0,"))
    }

    @Test("Records, portal, addresses and refused values of a status do not leave the device")
    func status() throws {
        for sample in StatusSamples.all {
            var document = sample.document
            document.configuration.error = "agentd.yaml:3:7: hub.token: \"s3cret\" unknown key"
            document.connectivity.portalURL = "https://portal.example/?session=s3cret"
            let text = String(decoding: document.withoutParticulars.answer.body, as: UTF8.self)
            #expect(!text.contains("s3cret"))
            #expect(text.contains("agentd.yaml:3:7: [redacted]"))
            for item in document.attention { #expect(!text.contains("\"record_id\":\"\(item.record.id.text)\"")) }
            for address in document.connectivity.links.flatMap(\.addresses) { #expect(!text.contains(address)) }
        }
    }
}
