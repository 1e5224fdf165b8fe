import SyncCore
import Testing

@Suite("Placeholders: the cheap look at a text")
struct PlaceholderTests {
    @Test(
        "A text without a placeholder is told from one that may have one",
        arguments: [
            (#"{"photo":{"$blob":"sha256:ab"}}"#, true), (#"{"photo":{"\u0024blob":"x"}}"#, true), (#"{"p":{"$\u0062lob":"x"}}"#, true),
            (#"{"p":{"$blo\u0062":"x"}}"#, true), (#"{"p":{"$$blob":"x"}}"#, true), (#"{"p":{"$b$blob":"x"}}"#, true),
            // The text of a value may look like one, which costs a walk only.
            (#"{"note":"write $blob here"}"#, true), (#"{"note":"\\u0024"}"#, true), (#"{"note":"\u00e4"}"#, true),
            ("", false), ("{}", false), (#"{"price":"5 $","body":"blob"}"#, false), (#"{"a":"$blo","b":"b"}"#, false),
            (#"{"a":"C:\\temp\n\"x\"\/","b":{"c":[1,null,true]}}"#, false), (#"{"$bloc":{"$ blob":"ü"}}"#, false), (#"{"a":"$blo"#, false),
        ])
    func looks(_ text: String, _ answer: Bool) {
        #expect(Placeholder.mayBe(in: text) == answer)
    }

    @Test("A document that shows a file is never taken for one that does not, however the mark is escaped")
    func escapes() throws {
        let digest = BlobDigest(bytes: SHA256.hash([1]))!
        var random = SeededRandom(seed: 11)
        for round in 0..<500 {
            let mark = Placeholder.mark.unicodeScalars.map { scalar in
                guard random.next() % 3 == 0 else { return String(scalar) }
                let hex = String(scalar.value, radix: 16)
                return "\\u00" + (random.next() % 2 == 0 ? hex : hex.uppercased())
            }
            let text = #"{"n":\#(round),"p":[{"\#(mark.joined())":"\#(digest)","state":"uploaded"}]}"#
            let document = try #require(try JSONReader.read(text).object)
            #expect(Placeholder.shown(in: document).map(\.file.digest) == [digest])
            #expect(Placeholder.mayBe(in: text), "\(text)")
            #expect(Placeholder.mayBe(in: document.json), "as it is stored")
        }
    }
}
