import Glibc
import Synchronization

/// The clocks of one program, moved while it runs (`Tests/CClockWarp`).
final class ClockWarp: Sendable {
    let path: String
    private let numbers: Mutex<Numbers>

    private struct Numbers: @unchecked Sendable {
        let place: UnsafeMutablePointer<Int64>
    }

    private enum Place: Int {
        case wall, monotonic, boot, steps, unsynchronised
    }

    private static let count = 5

    init(_ path: String) throws {
        self.path = path
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        let size = Self.count * MemoryLayout<Int64>.stride
        guard file >= 0, ftruncate(file, off_t(size)) == 0,
            let map = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), map != MAP_FAILED
        else { throw StandError("the clocks' file \(path) cannot be made") }
        close(file)
        numbers = Mutex(Numbers(place: map.bindMemory(to: Int64.self, capacity: Self.count)))
    }

    deinit {
        numbers.withLock { _ = munmap($0.place, Self.count * MemoryLayout<Int64>.stride) }
    }

    var environment: [String: String] { ["LD_PRELOAD": Programs.clockWarp, "CLOCKWARP_FILE": path] }

    /// Time passes: all clocks go on.
    func pass(_ time: Duration) {
        add([.wall: time, .monotonic: time, .boot: time])
    }

    /// The machine sleeps: nothing runs, and the monotonic clock stands still.
    func suspend(_ time: Duration) {
        add([.wall: time, .boot: time])
    }

    /// Steps the wall clock, as a person or NTP does.
    ///
    /// - Parameter isSynchronised: The kernel's answer about the clock afterwards.
    func step(_ time: Duration, isSynchronised: Bool) {
        numbers.withLock { numbers in
            numbers.place[Place.unsynchronised.rawValue] = isSynchronised ? 0 : 1
            numbers.place[Place.wall.rawValue] += Self.nanoseconds(time)
            numbers.place[Place.steps.rawValue] += 1
        }
    }

    private func add(_ changes: [Place: Duration]) {
        numbers.withLock { numbers in
            for (place, time) in changes { numbers.place[place.rawValue] += Self.nanoseconds(time) }
        }
    }

    private static func nanoseconds(_ time: Duration) -> Int64 {
        let (seconds, attoseconds) = time.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
