import HubServer
import SyncCore
import Testing

/// Readers that need no store: places, credentials, the XML of answers.
@Suite("Words of an object store")
struct ObjectStoreWordsTests {
    @Test(
        "A place is a bucket and a prefix",
        arguments: [
            ("s3://files", "s3://files/ at https://s3.eu-central-1.amazonaws.com"),
            ("s3://files/", "s3://files/ at https://s3.eu-central-1.amazonaws.com"),
            ("s3://my.files-1/a/b_c/", "s3://my.files-1/a/b_c/ at https://s3.eu-central-1.amazonaws.com"),
        ])
    func place(_ text: String, _ meant: String) throws {
        #expect(try ObjectStorePlace(text, endpoint: nil, region: "eu-central-1").description == meant)
    }

    @Test(
        "Anything else is refused with what was expected",
        arguments: [
            ("files", nil, "s3://BUCKET"), ("s3://", nil, "3 to 63"), ("s3://Files", nil, "3 to 63"),
            ("s3://files/a//b", nil, "single slashes"),
            ("s3://files/../b", nil, "single slashes"), ("s3://files/a b", nil, "prefix of"), ("s3://files/ä", nil, "prefix of"),
            ("s3://files", "store:9000", "https://s3.example:9000"), ("s3://files", "https://", "https://s3.example:9000"),
            ("s3://files", "https://key:secret@store", "https://s3.example:9000"),
            ("s3://files", "https://store/path", "https://s3.example:9000"),
        ] as [(String, String?, String)])
    func refused(_ text: String, _ endpoint: String?, _ expected: String) {
        #expect { try ObjectStorePlace(text, endpoint: endpoint, region: "eu-central-1") } throws: { "\($0)".contains(expected) }
    }

    @Test("Only what stays on this machine may travel openly without a word")
    func open() throws {
        func place(_ endpoint: String) throws -> ObjectStorePlace { try ObjectStorePlace("s3://files", endpoint: endpoint, region: "r") }
        #expect(
            try !place("http://127.0.0.1:9000").travelsOpenly && !place("http://[::1]:9000/").travelsOpenly
                && !place("https://store").travelsOpenly)
        #expect(try place("http://store:9000").travelsOpenly)
    }

    @Test("Credentials are read as Amazon's tools write them, and never printed")
    func credentials() throws {
        let read = try ObjectStoreCredentials(
            reading: "[default]\n# ours\naws_access_key_id = AKIA1\r\naws_secret_access_key=ab/c+d=\n\n")
        #expect(read.keyID == "AKIA1" && read.secret == "ab/c+d=" && read.sessionToken == nil)
        #expect("\(read)" == "AKIA1")
    }

    @Test(
        "Credentials that are none are refused without showing them",
        arguments: [
            "", "aws_access_key_id = a", "aws_access_key_id = a\naws_secret_access_key =", "key = s3cret",
            "[other]\naws_access_key_id = a\naws_secret_access_key = s3cret",
            "aws_access_key_id = a\naws_secret_access_key = s3cret\naws_secret_access_key = s3cret",
            "aws_access_key_id = a b\naws_secret_access_key = s3cret",
        ])
    func noCredentials(_ text: String) {
        #expect { try ObjectStoreCredentials(reading: text) } throws: {
            "\($0)".contains("aws_secret_access_key") && !"\($0)".contains("s3cret")
        }
    }

    @Test("XML as stores write it")
    func xml() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?><!-- x -->
            <s3:List xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/" a='>'>
              <Contents><Key>a&amp;b&#34;&#x20ac;</Key><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents><Empty/>
              <Contents><Key><![CDATA[<c>]]></Key></Contents>
            </s3:List>

            """
        let root = try #require(XMLReader.read(Array(text.utf8)))
        #expect(root.name == "List")
        #expect(root.all("Contents").map { $0["Key"] } == ["a&b\"€", "<c>"])
        #expect(root.all("Contents").first?["ETag"] == "\"1\"")
        #expect(root["Empty"] == "" && root["Missing"] == nil)
    }

    @Test(
        "XML that is broken, hostile or without end is none",
        arguments: [
            "", "x", "<a>", "<a></b>", "<a/><b/>", "<a>&b;</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a b></a>", "<a b=\"></a>", "<a", "<",
            "<!DOCTYPE a [<!ENTITY b \"bb\">]><a>&b;</a>", "<a><!-- </a>", "<a><![CDATA[</a>", String(repeating: "<a>", count: 100_000),
            String(repeating: "<a>", count: 17) + String(repeating: "</a>", count: 17),
            "<a>" + String(repeating: "<b/>", count: 100_001) + "</a>",
        ])
    func badXML(_ text: String) {
        #expect(XMLReader.read(Array(text.utf8)) == nil)
    }

    @Test("Every beginning of a document is none, and no noise stops the reader")
    func noise() {
        let whole = Array("<a x=\"1\"><b>c&lt;</b><!-- d --><![CDATA[e]]></a>".utf8)
        for count in 0..<whole.count { #expect(XMLReader.read(Array(whole[..<count])) == nil) }
        var random = SeededRandom(seed: 1)
        for _ in 0..<2_000 {
            var noisy = whole
            noisy[Int(random.next() % UInt64(noisy.count))] = UInt8(truncatingIfNeeded: random.next())
            _ = XMLReader.read(noisy)
        }
    }
}
