/// A binary heap: the smallest element comes out first. Inserting and removing take logarithmic time.
struct MinHeap<Element: Comparable> {
    // Invariant: no element is smaller than its parent, at (index - 1) / 2.
    private var elements: [Element] = []

    var min: Element? { elements.first }
    var count: Int { elements.count }

    mutating func insert(_ element: Element) {
        elements.append(element)
        var index = elements.count - 1
        while index > 0, case let parent = (index - 1) / 2, elements[index] < elements[parent] {
            elements.swapAt(index, parent)
            index = parent
        }
    }

    mutating func popMin() -> Element? {
        guard let last = elements.popLast() else { return nil }
        guard let first = elements.first else { return last }
        elements[0] = last
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < elements.count && elements[child] < elements[least] { least = child }
            guard least != index else { return first }
            elements.swapAt(index, least)
            index = least
        }
    }
}
