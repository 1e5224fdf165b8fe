import HubServer
import SyncCore
import Testing

@Suite("Standing of a folder of files")
struct FolderStandingTests {
    struct Case: Sendable, CustomStringConvertible {
        var database: String?
        var folder: String?
        /// Number of files that were looked for, and of those that are there.
        var sample = 0
        var found = 0
        var standing: FolderStanding
        var description: String { "\(database ?? "none"), \(folder ?? "none"), \(found) of \(sample): \(standing)" }
    }

    private static let (one, two) = ("00112233445566aa", "ffeeddccbbaa9988")

    static let cases = [
        Case(database: one, folder: one, standing: .right),
        // The files do not count where the ids are the same.
        Case(database: one, folder: one, sample: 16, found: 0, standing: .right),
        Case(database: one, folder: nil, standing: .wrong("its id is missing, and the database expects the folder with the id \(one)")),
        // Those of a time without ids, in a mount point, prove nothing.
        Case(
            database: one, folder: nil, sample: 16, found: 16,
            standing: .wrong("its id is missing, and the database expects the folder with the id \(one)")),
        Case(database: one, folder: two, standing: .wrong("its id is \(two), and the database expects the folder with the id \(one)")),
        // A new hub.
        Case(database: nil, folder: nil, standing: .unclaimed),
        Case(database: nil, folder: two, standing: .unclaimed),
        // A database of before.
        Case(database: nil, folder: nil, sample: 16, found: 16, standing: .unclaimed),
        Case(database: nil, folder: nil, sample: 16, found: 8, standing: .unclaimed),
        Case(database: nil, folder: two, sample: 1, found: 1, standing: .unclaimed),
        Case(
            database: nil, folder: nil, sample: 16, found: 7,
            standing: .wrong("it has 7 of 16 files of the database that were looked for")),
        Case(database: nil, folder: two, sample: 1, found: 0, standing: .wrong("it has 0 of 1 files of the database that were looked for")),
    ]

    @Test("A folder is right by its id; a database without one takes the folder that has its files", arguments: cases)
    func standing(_ example: Case) throws {
        let sample = (0..<example.sample).compactMap { BlobDigest(bytes: SHA256.hash([UInt8($0)])) }
        let facts = FolderFacts(id: example.database.flatMap { FolderID($0) }, sample: sample)
        #expect(FolderStanding(facts, folder: example.folder.flatMap { FolderID($0) }, found: example.found) == example.standing)
    }

    @Test(
        "An id is 16 hexadecimal digits in lower case",
        arguments: ["", "00112233445566a", "00112233445566aaa", "00112233445566AA", "0011223344 566aa"])
    func form(_ text: String) {
        #expect(FolderID(text) == nil)
    }

    @Test("A drawn id is one")
    func drawn() {
        var random = SeededRandom(seed: 1)
        let ids = (0..<20).map { _ in FolderID(using: &random) }
        #expect(Set(ids).count == 20 && ids.allSatisfy { FolderID($0.text) == $0 })
    }
}
