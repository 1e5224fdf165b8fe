import SyncCore

/// Planned events, ordered by time and then by the order of planning. The only clock of a simulated world is the time of the event that
/// was taken last.
struct EventQueue<Event> {
    private struct Entry {
        var at: Instant
        var sequence: UInt64
        /// Place of the event in the storage. Events are large and entries move often, so only entries move.
        var place: Int

        func isBefore(_ other: Entry) -> Bool {
            at != other.at ? at < other.at : sequence < other.sequence
        }
    }

    /// A binary heap: no entry is before its parent, which is at `(index - 1) / 2`.
    private var heap: [Entry] = []
    private var sequence: UInt64 = 0
    private var events: [Event?] = []
    private var free: [Int] = []

    var isEmpty: Bool { heap.isEmpty }

    mutating func plan(_ event: Event, at time: Instant) {
        sequence += 1
        let place = free.popLast() ?? events.count
        if place == events.count { events.append(event) } else { events[place] = event }
        heap.append(Entry(at: time, sequence: sequence, place: place))
        var index = heap.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard heap[index].isBefore(heap[parent]) else { break }
            heap.swapAt(index, parent)
            index = parent
        }
    }

    mutating func take() -> (at: Instant, event: Event)? {
        guard let first = heap.first, let event = events[first.place] else { return nil }
        events[first.place] = nil
        free.append(first.place)
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        return (first.at, event)
    }

    private mutating func sink() {
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].isBefore(heap[least]) {
                least = child
            }
            if least == index { return }
            heap.swapAt(index, least)
            index = least
        }
    }
}
