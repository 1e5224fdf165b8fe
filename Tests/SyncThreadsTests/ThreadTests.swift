import Glibc
import SyncThreads
import Testing

@Suite("A thread of our own")
struct OwnThreadTests {
    @Test(
        "It has its name, cut to 15 bytes, and blocks all signals",
        arguments: [("links", "links"), ("a name of 20 letters", "a name of 20 le")])
    func name(_ given: String, _ shown: String) throws {
        let found = Promise<(name: String, blocks: Bool)>()
        let thread = try OwnThread(name: given) {
            var name = [UInt8](repeating: 0, count: 32)
            let file = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC)
            let count = read(file, &name, name.count)
            close(file)
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            let blocks = [SIGTERM, SIGHUP, SIGPIPE].allSatisfy { sigismember(&mask, $0) == 1 }
            found.fulfil((String(decoding: name.prefix(max(0, count - 1)), as: UTF8.self), blocks))
        }
        thread.join()
        let (name, blocks) = found.wait()
        #expect(name == shown)
        #expect(blocks)
    }

    @Test("The mask of the thread that makes it stays as it was")
    func mask() throws {
        var before = sigset_t(), after = sigset_t()
        pthread_sigmask(SIG_BLOCK, nil, &before)
        try OwnThread(name: "mask") {}.join()
        pthread_sigmask(SIG_BLOCK, nil, &after)
        for number in 1...31 { #expect(sigismember(&before, Int32(number)) == sigismember(&after, Int32(number))) }
    }

    @Test("A join waits for the end of the body, and a second one returns at once")
    func join() throws {
        let (goOn, ended) = (Promise<Void>(), Promise<Void>())
        let thread = try OwnThread(name: "join") {
            goOn.wait()
            ended.fulfil()
        }
        #expect(!ended.isFulfilled)
        goOn.fulfil()
        thread.join()
        #expect(ended.isFulfilled)
        thread.join()
    }

    @Test("A join on the thread itself returns, and a thread that is not joined ends by itself")
    func itself() throws {
        let (me, ended) = (Promise<OwnThread>(), Promise<Void>())
        me.fulfil(
            try OwnThread(name: "itself") {
                me.wait().join()
                ended.fulfil()
            })
        ended.wait()
    }
}

@Suite("A state that threads wait for")
struct WaitableTests {
    @Test("A change wakes every waiting thread, and each takes its part")
    func wakes() throws {
        let numbers = Waitable<[Int]>([])
        let sum = Waitable(0)
        let threads = try (0..<4).map { number in
            try OwnThread(name: "taker \(number)") {
                let taken = numbers.wait { $0.popLast() }
                sum.change { $0 += taken }
            }
        }
        numbers.change { $0 = [1, 2, 3, 4] }
        for thread in threads { thread.join() }
        #expect(sum.change { $0 } == 10)
        #expect(numbers.change { $0 } == [])
    }

    @Test("A wait ends with its deadline, and takes what is there by then")
    func deadline() {
        let value = Waitable<Int?>(nil)
        #expect(value.wait(until: MonotonicTime.now() + 1_000_000) { $0 } == nil)
        #expect(value.wait(until: MonotonicTime.now() - 1_000_000) { $0 } == nil)
        value.change { $0 = 7 }
        #expect(value.wait(until: MonotonicTime.now() - 1_000_000) { $0 } == 7)
        #expect(value.wait(until: nil) { $0 } == 7)
    }

    @Test("An error of a change comes out with its type, and the lock is free again")
    func fails() {
        struct Refused: Error, Equatable {}
        let value = Waitable(1)
        #expect(throws: Refused()) {
            try value.change { number throws(Refused) in
                number += 1
                throw Refused()
            }
        }
        #expect(value.change { $0 } == 2)
    }
}

@Suite("A promise")
struct PromiseTests {
    @Test("The first value stays")
    func first() {
        let promise = Promise<Int>()
        #expect(!promise.isFulfilled)
        promise.fulfil(1)
        promise.fulfil(2)
        #expect(promise.isFulfilled)
        #expect(promise.wait() == 1)
        #expect(promise.wait(atMost: .zero) == 1)
    }

    @Test("A wait with a limit ends without a value, also with a negative one", arguments: [Duration.milliseconds(1), .zero, .seconds(-1)])
    func limit(_ patience: Duration) {
        #expect(Promise<Int>().wait(atMost: patience) == nil)
        #expect(Promise<Void>().wait(atMost: patience) == nil)
    }

    @Test("The value reaches a thread that waits already")
    func crosses() throws {
        let (question, answer) = (Promise<Int>(), Promise<Int>())
        let thread = try OwnThread(name: "answers") { answer.fulfil(question.wait() * 2) }
        question.fulfil(21)
        #expect(answer.wait() == 42)
        thread.join()
    }
}
