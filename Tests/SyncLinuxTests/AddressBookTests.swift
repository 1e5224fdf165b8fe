import SyncCore
import SyncLinux
import Testing

@Suite("Addresses of a server")
struct AddressBookTests {
    private func at(_ seconds: Double) -> Instant { Instant(nanoseconds: 1_000_000_000_000 + Int64(seconds * 1_000_000_000)) }

    private struct Try {
        var book = AddressBook()

        mutating func begin(_ socket: Int32, _ address: String, _ now: Instant) -> Bool {
            guard book.allows(address, of: "hub", now: now) else { return false }
            book.began(socket, to: address, of: "hub", now: now)
            return true
        }

        mutating func allows(_ address: String, of server: String = "hub", _ now: Instant) -> Bool {
            book.allows(address, of: server, now: now)
        }
    }

    @Test("A silent address is left out for longer each time, an answering one is not, and the only address never")
    func marks() {
        var value = Try()
        // As long as no other address is known, it is all there is.
        let first = value.begin(3, "a|1", at(0))
        value.book.closed(3, now: at(5))
        let alone = value.allows("a|1", at(5))
        let second = value.begin(4, "b|1", at(5))
        value.book.connected(4)
        #expect(first && alone && second)
        var now = 5.0
        for minutes in [10.0, 20, 40, 80, 120, 120] {
            let during = value.allows("a|1", at(now + minutes * 60 - 1)), after = value.begin(3, "a|1", at(now + minutes * 60))
            #expect(!during && after, "\(minutes)")
            now += minutes * 60 + 2
            value.book.closed(3, now: at(now))
            let good = value.allows("b|1", at(now))
            #expect(good)
        }
        // One answer, and all is forgiven.
        now += 7_200
        let back = value.begin(3, "a|1", at(now))
        value.book.connected(3)
        let kept = value.allows("a|1", at(now))
        #expect(back && kept)
    }

    @Test("A refusal, a missing route and a caller that gives up soon are no silence; another link forgets")
    func noSilence() {
        var value = Try()
        _ = value.begin(3, "a|1", at(0))
        _ = value.begin(4, "b|1", at(0))
        value.book.closed(3, now: at(1.4))
        let quick = value.allows("a|1", at(2))
        value.book.closed(4, now: at(1.5))
        let slow = value.allows("b|1", at(2))
        value.book.forget()
        let forgotten = value.allows("b|1", at(2))
        #expect(quick && !slow && forgotten)
    }

    @Test("Where those that are tried refuse, one that was left out gets its turn, the oldest first")
    func turns() {
        var value = Try()
        for (socket, address) in [(Int32(3), "a|1"), (4, "b|1"), (5, "c|1")] { _ = value.begin(socket, address, at(0)) }
        value.book.closed(3, now: at(2))
        value.book.closed(4, now: at(3))
        value.book.giveTurn(of: "hub", now: at(4))
        let first = ["a|1", "b|1"].map { value.allows($0, at(4)) }
        value.book.giveTurn(of: "hub", now: at(63))
        let soon = ["a|1", "b|1"].map { value.allows($0, at(63)) }
        value.book.giveTurn(of: "hub", now: at(64))
        let second = ["a|1", "b|1"].map { value.allows($0, at(64)) }
        value.book.giveTurn(of: "nobody", now: at(200))
        #expect(first == [true, false] && soon == first && second == [true, true])
    }

    @Test("Each of several addresses gets two seconds, a single one all the time, and each server has its own book")
    func patience() {
        var value = Try()
        _ = value.begin(3, "a|1", at(0))
        #expect(value.book.nextLate == nil && value.book.late(now: at(100)).isEmpty)
        _ = value.allows("b|1", of: "other", at(0))
        #expect(value.book.nextLate == nil)
        _ = value.begin(4, "b|1", at(1))
        #expect(value.book.nextLate == at(2) && value.book.late(now: at(2)) == [3] && value.book.late(now: at(3)).sorted() == [3, 4])
        value.book.wait(for: 3)
        #expect(value.book.late(now: at(9)) == [4])
        value.book.connected(4)
        #expect(value.book.nextLate == nil)
        // An answer that came late all the same is as good as any.
        value.book.closed(3, now: at(9))
        _ = value.begin(5, "a|1", at(700))
        value.book.wait(for: 5)
        value.book.connected(5)
        let isAllowed = value.allows("a|1", at(701))
        #expect(isAllowed)
    }

    @Test("The address book remembers a bounded number of names and addresses, however many come")
    func bookRemembersABoundedNumber() {
        var value = Try()
        for number in 0..<2_000 {
            _ = value.allows("x|1", of: "server \(number)", at(0))
            _ = value.begin(Int32(number), "a\(number)|1", at(0))
            value.book.closed(Int32(number), now: at(10))
            #expect(value.book.remembered <= 3 * AddressBook.max + 1)
        }
    }
}
