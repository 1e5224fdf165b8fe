import SyncCore
import Testing

@Suite("Seed filters")
struct SeedFilterTests {
    private static let device = DeviceID(trusted: "gw-17")

    struct Example: CustomTestStringConvertible {
        var values: [String: String]
        var document: JSONObject
        var passes: Bool

        var testDescription: String { "\(values) on \(JSON.object(document).json)" }
    }

    static let examples: [Example] = [
        Example(values: [:], document: [:], passes: true),
        Example(values: ["assignee": "$device"], document: ["assignee": "gw-17"], passes: true),
        Example(values: ["assignee": "$device"], document: ["assignee": "gw-18"], passes: false),
        Example(values: ["assignee": "$device"], document: ["assignee": "$device"], passes: false),
        Example(values: ["assignee": "$device"], document: [:], passes: false),
        Example(values: ["assignee": "$device"], document: ["assignee": nil], passes: false),
        Example(values: ["crew": "$device"], document: ["crew": ["gw-1", "gw-17"]], passes: true),
        Example(values: ["crew": "$device"], document: ["crew": ["gw-1"]], passes: false),
        Example(values: ["crew": "$device"], document: ["crew": [["gw-17"]]], passes: false),
        Example(values: ["a": "x", "b": "y"], document: ["a": "x", "b": "y", "c": 1], passes: true),
        Example(values: ["a": "x", "b": "y"], document: ["a": "x", "b": "z"], passes: false),
        Example(values: ["floor": "3"], document: ["floor": 3], passes: true),
        Example(values: ["floor": "3"], document: ["floor": "3"], passes: true),
        Example(values: ["floor": "3"], document: ["floor": 30], passes: false),
        Example(values: ["isOpen": "true"], document: ["isOpen": true], passes: true),
        Example(values: ["isOpen": "true"], document: ["isOpen": false], passes: false),
        Example(values: ["o": "x"], document: ["o": ["x": 1]], passes: false),
    ]

    @Test("A record passes when every field holds its value, or a list that has it", arguments: examples)
    func matches(_ example: Example) {
        #expect(SeedFilter(example.values).matches(example.document, for: Self.device) == example.passes)
    }

    struct Texts: Sendable {
        var values: [String: String]
        var text: String?
    }

    @Test(
        "The text by which a database finds candidates is the device's id, else the longest value that JSON never escapes",
        arguments: [
            Texts(values: [:], text: nil), Texts(values: ["assignee": SeedFilter.device], text: device.text),
            Texts(values: ["assignee": SeedFilter.device, "status": "a-much-longer-text-than-the-id"], text: device.text),
            Texts(values: ["status": "open", "site": "s_3.b:c-4"], text: "s_3.b:c-4"),
            Texts(values: ["status": "open", "site": "north east"], text: "open"), Texts(values: ["site": "Zürich"], text: nil),
            Texts(values: ["site": "50%"], text: nil), Texts(values: ["site": ""], text: nil), Texts(values: ["n": "17"], text: "17"),
        ])
    func text(_ example: Texts) {
        #expect(SeedFilter(example.values).text(for: Self.device) == example.text)
    }
}
