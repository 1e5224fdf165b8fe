import BenchKit
import CBenchFloors
import Glibc

/// Tells which of many sockets have bytes to read (epoll), at a cost that does not grow with the number of silent ones.
struct ReadyQueue {
    private let descriptor: Int32

    private static let most = 512

    init() throws {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw BenchError("no queue of events can be made (errno \(errno))") }
    }

    func close() { _ = Glibc.close(descriptor) }

    /// - Parameter mark: Names the socket in the results of ``wait(milliseconds:)``. A socket that is closed leaves the queue by itself.
    func add(_ socket: Int32, as mark: UInt64) throws {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: mark))
        guard epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event) == 0 else {
            throw BenchError("a socket cannot be watched (errno \(errno))")
        }
    }

    /// Waits until there is something to read.
    ///
    /// - Returns: The marks of the sockets that can be read; none when the time is over.
    func wait(milliseconds: Int32) -> [UInt64] {
        var events = [epoll_event](repeating: epoll_event(), count: ReadyQueue.most)
        let count = epoll_wait(descriptor, &events, Int32(ReadyQueue.most), milliseconds)
        return count > 0 ? events[..<Int(count)].map(\.data.u64) : []
    }
}
