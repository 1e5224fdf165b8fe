import PowerCutKit
import SyncCore
import Testing

/// The judge is judged: what a cut may leave of small logs that are written by hand.
@Suite("Disk model")
struct DiskModelTests {
    private struct Script {
        private var bytes: [UInt8] = []
        private var syncs: UInt64 = 0

        mutating func add(_ kind: IOLog.Kind, place: UInt64 = 0, inode: UInt64 = 0, path: String = "", data: String = "") {
            func number(_ value: some FixedWidthInteger) { withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) } }
            number(UInt32(0x4543_5045))
            number(kind.rawValue)
            number(place)
            number(inode)
            number(UInt32(path.utf8.count))
            number(UInt32(data.utf8.count))
            bytes += Array(path.utf8) + Array(data.utf8)
        }

        mutating func sync(_ inode: UInt64, folder: String? = nil, fails: Bool = false) {
            syncs += 1
            add(folder == nil ? .sync : .syncFolder, place: syncs, inode: inode, path: folder ?? "")
            add(fails ? .unsynced : .synced, place: syncs, inode: inode)
        }

        func log() throws -> IOLog { try IOLog(bytes) }
    }

    private func state(_ log: IOLog, _ policy: CutPolicy, _ names: NameRule, seed: UInt64 = 1) -> Disk.State {
        var disk = Disk(log)
        disk.advance(to: log.records.count)
        return disk.state(after: Cut(place: log.records.count, policy: policy, names: names, seed: seed))
    }

    private func text(_ state: Disk.State, _ path: String) -> String? {
        state.files[path].map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("Synced changes are always there; others may be missing")
    func synced() throws {
        var script = Script()
        script.add(.create, inode: 7, path: "a")
        script.add(.write, place: 0, inode: 7, data: "first")
        script.sync(7)
        script.sync(2, folder: "")
        script.add(.write, place: 5, inode: 7, data: " second")
        let log = try script.log()
        for names in NameRule.allCases {
            for policy in CutPolicy.allCases {
                for seed in 0..<20 as Range<UInt64> {
                    #expect(text(state(log, policy, names, seed: seed), "a")?.hasPrefix("first") == true)
                }
            }
            #expect(text(state(log, .nothing, names), "a") == "first")
            #expect(text(state(log, .everything, names), "a") == "first second")
        }
        let seen = Set((0..<50 as Range<UInt64>).map { text(state(log, .subset, .strict, seed: $0), "a") })
        #expect(seen == ["first", "first second"])
    }

    @Test("A name is durable after the sync of its folder; on a journal after any sync")
    func names() throws {
        var script = Script()
        script.add(.create, inode: 7, path: "a.tmp")
        script.add(.write, place: 0, inode: 7, data: "x")
        script.sync(7)
        script.add(.rename, path: "a.tmp", data: "a")
        var log = try script.log()
        #expect(state(log, .nothing, .strict).files.isEmpty)
        #expect(text(state(log, .nothing, .journal), "a.tmp") == "x", "the sync of the file took its name along")
        script.sync(2, folder: "")
        log = try script.log()
        for names in NameRule.allCases { #expect(Array(state(log, .nothing, names).files.keys) == ["a"]) }
    }

    @Test("A file in a folder that is not there is not there either")
    func folders() throws {
        var script = Script()
        script.add(.makeFolder, path: "ab")
        script.add(.create, inode: 7, path: "ab/c")
        script.sync(7)
        script.sync(3, folder: "ab")
        #expect(state(try script.log(), .nothing, .strict).files.isEmpty)
        script.sync(2, folder: "")
        #expect(state(try script.log(), .nothing, .strict).files.keys.sorted() == ["ab/c"])
    }

    @Test("A move between two folders: the new name is durable with its folder, the old one may stay")
    func moves() throws {
        var script = Script()
        script.add(.makeFolder, place: 1, inode: 3, path: "in")
        script.add(.makeFolder, place: 1, inode: 4, path: "ab")
        script.add(.create, inode: 7, path: "in/x")
        script.add(.write, place: 0, inode: 7, data: "x")
        script.sync(7)
        script.add(.rename, path: "in/x", data: "ab/c")
        #expect(state(try script.log(), .nothing, .strict).files.isEmpty)
        script.sync(4, folder: "ab")
        let log = try script.log()
        #expect(state(log, .nothing, .strict).files.keys.sorted() == ["ab/c"])
        #expect(text(state(log, .nothing, .strict), "ab/c") == "x")
        let seen = Set((0..<50 as Range<UInt64>).map { state(log, .subset, .strict, seed: $0).files.keys.sorted() })
        #expect(seen == [["ab/c"], ["ab/c", "in/x"]])
    }

    @Test("After a sync that failed, a later one that succeeds promises nothing of what the first was about")
    func failedSync() throws {
        var script = Script()
        script.add(.found, inode: 7, path: "a", data: "0000")
        script.add(.write, place: 0, inode: 7, data: "1")
        script.sync(7, fails: true)
        script.add(.write, place: 3, inode: 7, data: "2")
        script.sync(7)
        let log = try script.log()
        #expect(text(state(log, .nothing, .strict), "a") == "0002")
        #expect(text(state(log, .everything, .strict), "a") == "1002")
    }

    @Test("A torn write leaves whole sectors of the old and of the new")
    func torn() throws {
        var script = Script()
        script.add(.found, inode: 7, path: "a", data: String(repeating: "o", count: 2_048))
        script.add(.write, place: 256, inode: 7, data: String(repeating: "n", count: 1_024))
        let log = try script.log()
        var edges: Set<Int> = []
        for seed in 0..<200 as Range<UInt64> {
            let bytes = state(log, .torn512, .strict, seed: seed).files["a"] ?? []
            #expect(bytes.count == 2_048)
            for index in 1..<bytes.count where bytes[index] != bytes[index - 1] { edges.insert(index) }
        }
        #expect(edges == [256, 512, 1_024, 1_280])
    }

    @Test("A number that is used again for another file does not mix the two")
    func inodes() throws {
        var script = Script()
        script.add(.found, inode: 7, path: "a", data: "old")
        script.add(.remove, path: "a")
        script.add(.create, inode: 7, path: "b")
        script.add(.write, place: 0, inode: 7, data: "new")
        script.sync(7)
        #expect(text(state(try script.log(), .everything, .strict), "b") == "new")
        #expect(text(state(try script.log(), .nothing, .strict), "a") == "old")
    }

    @Test("Promises are read from answers, and only from them")
    func promises() throws {
        var script = Script()
        script.add(.sent, data: #"{"id":"k-1","seq":7,"state":"pending"}"#)
        script.add(
            .sent,
            data: #"{"results":[{"idempotency_key":"k-2","status":"accepted","version":9},{"idempotency_key":"k-3","status":"retry"}]}"#)
        script.add(.sent, data: #"{"mutations":[{"seq":1,"idempotency_key":"k-4","entity":"e"}]}"#)
        let digest = String(repeating: "ab", count: 32)
        script.add(.sent, data: #"{"id":"b-1","digest":"sha256:\#(digest)","size":1}"#)
        let log = try script.log()
        var promises = Promises()
        promises.advance(to: 1, in: log)
        #expect(promises.mutations == [7: "k-1"] && promises.accepted.isEmpty)
        promises.advance(to: log.records.count, in: log)
        #expect(promises.accepted == ["k-2": 9] && promises.offered == ["k-4"] && promises.files == [digest])
    }
}
