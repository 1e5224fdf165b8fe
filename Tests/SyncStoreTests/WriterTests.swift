import Foundation
import SyncCore
import SyncStore
import Synchronization
import Testing

/// The store's own thread: one commit for all that has gathered, and what it does when a commit fails.
@Suite("The store's thread")
struct WriterTests {
    private struct FixedTime: TimeSource {
        func now() -> Moment {
            Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_763_700_000_000))
        }
    }

    /// What the thread said, in order.
    private final class Heard: Sendable {
        private let state = Mutex<(incidents: [String], lost: Int)>(([], 0))

        func add(_ incident: StoreWriter.Incident) {
            state.withLock { state in
                switch incident {
                case .commitFailed(_, let survived, let lost):
                    state.incidents.append(survived ? "survived" : "gone")
                    state.lost += lost
                case .fatal: state.incidents.append("fatal")
                }
            }
        }

        var incidents: [String] { state.withLock { $0.incidents } }
        var lost: Int { state.withLock { $0.lost } }
    }

    /// Fails the commits that it was told to fail, as a medium would.
    private final class Fault: Sendable {
        let stage = Mutex<CommitStage?>(nil)
        let error = Mutex(StoreError(.unknownOutcome, doing: "commit"))
    }

    private func writer(_ folder: TemporaryFolder, _ heard: Heard, _ fault: Fault) throws -> StoreWriter {
        let path = folder.database
        let writer = StoreWriter(
            time: FixedTime(), deliver: { calls in for call in calls { call() } }, incident: { heard.add($0) },
            open: { now throws(StoreError) in
                let options = StoreOptions(device: DeviceID(trusted: "gw-17"), bootID: "boot-1", rules: TestAgent.rules, seed: 1)
                let store = try Store(Database.open(path: path), options, at: now)
                store.gate = { at throws(StoreError) in
                    let isNow = fault.stage.withLock { stage in
                        guard let wanted = stage, wanted == at else { return false }
                        stage = nil
                        return true
                    }
                    if isNow { throw fault.error.withLock { $0 } }
                }
                return store
            })
        _ = try writer.start()
        return writer
    }

    private let app = Requester(app: AppName(trusted: "inspector"), uid: 1_000)

    private func enqueue(_ writer: StoreWriter, _ id: String, durability: EntityRules.Durability = .flash) -> Result<[Enqueued], StoreError> {
        let answer = Mutex<Result<[Enqueued], StoreError>?>(nil)
        let done = DispatchSemaphore(value: 0)
        var mutation = TestAgent.mutation(.create, id)
        mutation.durability = durability
        writer.enqueue([mutation], by: app) { result in
            answer.withLock { $0 = result }
            done.signal()
        }
        done.wait()
        return answer.withLock { $0 } ?? .failure(StoreError(.closed, doing: "wait"))
    }

    @Test("A commit whose outcome is unknown: the store is opened again, and what is there decides", arguments: [CommitStage.before, .after])
    func unknownOutcome(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (Heard(), Fault())
        let writer = try writer(folder, heard, fault)
        _ = try enqueue(writer, "a").get()
        fault.stage.withLock { $0 = stage }
        let answer = enqueue(writer, "b")
        #expect(throws: StoreError.self) { try answer.get() }
        // Work goes on with the store that was opened again.
        #expect(try enqueue(writer, "c").get()[0].seq == (stage == .after ? 3 : 2))
        #expect(heard.incidents == [stage == .after ? "survived" : "gone"])
        try writer.close()
        #expect(try RawDatabase(folder.database).number("SELECT count(*) FROM payload") == (stage == .after ? 3 : 2))
        #expect(folder.bytes("-wal").isEmpty)
    }

    @Test("It happens once; the second time is the end", arguments: [CommitStage.before])
    func fatal(_ stage: CommitStage) throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (Heard(), Fault())
        let writer = try writer(folder, heard, fault)
        for id in ["a", "b"] {
            fault.stage.withLock { $0 = stage }
            #expect(throws: StoreError.self) { try enqueue(writer, id).get() }
        }
        let late = enqueue(writer, "c")
        #expect(throws: StoreError.self) { try late.get() }
        #expect(heard.incidents == ["gone", "fatal"])
        try writer.close()
    }

    @Test("Relaxed answers that were lost are told and counted, for good")
    func relaxedLost() throws {
        let folder = try TemporaryFolder()
        let (heard, fault) = (Heard(), Fault())
        let writer = try writer(folder, heard, fault)
        _ = try enqueue(writer, "a", durability: .relaxed).get()
        fault.error.withLock { $0 = StoreError(.diskFull, doing: "commit") }
        fault.stage.withLock { $0 = .before }
        #expect(throws: StoreError.self) { try enqueue(writer, "b").get() }
        #expect(heard.lost == 1)
        _ = try enqueue(writer, "c").get()
        try writer.close()
        let reader = try Database.openReader(path: folder.database)
        let facts = try StoreReads(database: reader).facts(at: FixedTime().now())
        #expect(facts.relaxedLost == 1)
        #expect(facts.enqueued == 1)
    }

    @Test("All that gathered shares a commit, and each is answered for itself")
    func groups() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, Heard(), Fault())
        let (entered, go) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let commits = Mutex<[Int]>([])
        // The thread is held in its first piece of work while the others gather.
        writer.run { store, _ throws(StoreError) in
            commits.withLock { $0.append(store.database.commits) }
            entered.signal()
            go.wait()
        } completion: { _ in }
        entered.wait()
        let answers = Mutex<[Bool]>([])
        let done = DispatchSemaphore(value: 0)
        for id in ["a", "b", "a", "c"] {
            writer.enqueue([TestAgent.mutation(.create, id)], by: app) { result in
                answers.withLock { $0.append((try? result.get()) != nil) }
                done.signal()
            }
        }
        go.signal()
        for _ in 0..<4 { done.wait() }
        #expect(answers.withLock { $0 } == [true, true, false, true])
        writer.run { store, _ throws(StoreError) in
            commits.withLock { $0.append(store.database.commits) }
            done.signal()
        } completion: { _ in }
        done.wait()
        let counted = commits.withLock { $0 }
        #expect(counted[1] - counted[0] == 1)
        try writer.close()
    }

    @Test("After it was closed, everything is refused")
    func closed() throws {
        let folder = try TemporaryFolder()
        let writer = try writer(folder, Heard(), Fault())
        try writer.close()
        #expect(throws: StoreError.self) { try enqueue(writer, "a").get() }
    }
}
