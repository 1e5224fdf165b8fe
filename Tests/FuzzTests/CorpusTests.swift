import Foundation
import FuzzKit
import Testing

/// The corpus that fuzzing has gathered, and what a small generator makes of it, through the same functions as `deploy/fuzz`.
struct CorpusTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Corpus")

    private static func entries(_ name: String) throws -> [(name: String, bytes: [UInt8])] {
        let files = try FileManager.default.contentsOfDirectory(
            at: folder.appendingPathComponent(name), includingPropertiesForKeys: nil)
        return try files.sorted { $0.path < $1.path }.map { ($0.lastPathComponent, [UInt8](try Data(contentsOf: $0))) }
    }

    @Test("Each entry of the corpus keeps what its target claims", arguments: FuzzTarget.all.map(\.name))
    func holds(_ name: String) throws {
        let target = try #require(FuzzTarget[name])
        let entries = try Self.entries(name)
        #expect(entries.count >= 5, "\(name) has \(entries.count) entries")
        for entry in entries {
            do {
                try target.check(entry.bytes)
            } catch {
                Issue.record("\(name)/\(entry.name): \(error)")
            }
        }
    }

    @Test("A few hundred random changes of the corpus keep the claims, too", arguments: FuzzTarget.all.map(\.name))
    func changed(_ name: String) throws {
        let target = try #require(FuzzTarget[name])
        let entries = try Self.entries(name).filter { $0.bytes.count < 2_048 }
        var random = Random(state: name.utf8.reduce(1) { $0 &* 31 &+ UInt64($1) })
        for _ in 0..<300 {
            var bytes = try #require(entries.randomElement(using: &random)).bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                Self.change(&bytes, entries.randomElement(using: &random)?.bytes ?? [], &random)
            }
            do {
                try target.check(bytes)
            } catch {
                Issue.record("\(name): \(error) for \(Data(bytes).base64EncodedString())")
            }
        }
    }

    private static func change(_ bytes: inout [UInt8], _ other: [UInt8], _ random: inout Random) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        switch Int.random(in: 0...5, using: &random) {
        case 0 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
        case 2: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...8, using: &random)))
        case 3: bytes.insert(contentsOf: other.prefix(64), at: place)
        case 4: bytes.insert(contentsOf: bytes[place...].prefix(16), at: place)
        default: bytes.append(UInt8.random(in: 0...255, using: &random))
        }
    }

    @Test("No folder of the corpus is without a target")
    func nothingIsForgotten() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).filter { !$0.hasPrefix(".") }
        #expect(Set(folders) == Set(FuzzTarget.all.map(\.name)))
    }
}

private struct Random: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
