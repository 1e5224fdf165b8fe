import Agent
import SyncCore
import SyncStore
import Testing

@Suite("The health of the database")
struct StoreHealthTests {
    private let start = Instant(nanoseconds: 5)
    private let full = StoreError(.diskFull, doing: "commit", detail: "no space left")
    private let broken = StoreError(.ioError, doing: "commit", detail: "the medium failed")

    @Test("A database that cannot be used is only read, until it can be used again; then the fault is past")
    func unusable() {
        var health = StoreHealth()
        health.handle(.unusable(full), at: start)
        #expect(health.isReadOnly && health.fault?.code == .diskFull)
        #expect(health.recoveryNews(isFull: false, at: start) == nil)
        health.handle(.usableAgain(StoreOpening()), at: start)
        #expect(!health.isReadOnly && health.fault == nil)
        #expect(health.recoveryNews(isFull: false, at: start) == nil)
        #expect(health.recoveryNews(isFull: true, at: start) == "the database could not be used for a while (\(full))")
    }

    @Test("A failed commit is told for a while, and leaves the database usable")
    func failedCommit() {
        var health = StoreHealth()
        health.handle(.commitFailed(broken, survived: true, relaxedLost: 0), at: start)
        #expect(!health.isReadOnly && health.fault == nil)
        #expect(health.recoveryNews(isFull: false, at: start) == "a commit failed (\(broken)); the database was opened again")
        #expect(health.recoveryNews(isFull: false, at: start.advanced(by: Recovery.remembered)) == nil)
        health.handle(.readFailed(broken, relaxedLost: 0), at: start)
        #expect(health.recoveryNews(isFull: false, at: start) == "the disk could not be read (\(broken)); the database was opened again")
    }

    @Test("A read that failed is explained by the fault of the disk, if there is one")
    func obstacle() {
        let missing = StoreError(.other, doing: "read", detail: "no such table: mutation")
        var health = StoreHealth()
        #expect(health.obstacle(missing) == missing.description)
        health.handle(.fatal(broken), at: start)
        #expect(health.isReadOnly && health.obstacle(missing) == broken.description)
        health.handle(.unusable(full), at: start)
        #expect(health.obstacle(missing) == "the disk of the state folder is full (\(full))")
    }

    @Test("A check that finds nothing leaves ok, and the first complaint of another stays")
    func integrity() {
        var health = StoreHealth()
        health.checked([])
        #expect(health.integrity == "ok")
        health.checked(["page 7 is torn", "page 8 is torn"])
        health.checked([])
        #expect(health.integrity == "page 7 is torn")
        #expect(!health.isReadOnly)
        health.refused()
        #expect(health.isReadOnly)
    }
}
