/// A file that is to be moved, as it is passed to the machine of its direction.
package protocol FileJob: Hashable, Sendable {
    var id: BlobID { get }
    /// Size, bytes.
    var size: Int64 { get }
    /// Number of bytes that were moved already.
    var offset: Int64 { get }
    /// The file goes before all others that are not urgent.
    var isUrgent: Bool { get }
    /// Time since which the file waits.
    var waitingSince: Timestamp { get }
}

extension FileJob {
    package var remaining: Int64 { max(0, size - offset) }

    /// The order of transfers: urgent files first, then the smallest remaining one, then the oldest.
    package static func isBefore(_ left: Self, _ right: Self) -> Bool {
        (left.isUrgent ? 0 : 1, left.remaining, left.id.number) < (right.isUrgent ? 0 : 1, right.remaining, right.id.number)
    }

    /// The class of traffic. A row of the policy counts the file, not the present piece.
    package func traffic(large: Int) -> TrafficClass { size > Int64(large) ? .largeMedia : .media }
}

/// The decisions about the requests of one file, as far as ``FileScheduler`` needs to know them.
protocol FileMachine: Sendable {
    associatedtype Job: FileJob
    associatedtype Request: Hashable, Sendable

    /// Largest number of bytes that were ever at the other side.
    var best: Int64 { get }
    /// Number of attempts since a byte arrived that had never arrived before.
    var attempts: Int { get }
    /// The next step is a request. Otherwise it is work on this device.
    var needsLink: Bool { get }

    /// Counts an attempt without progress.
    mutating func count()
}
