/// Items of a list that the agent gives page by page. The next page is asked for when the items of the last one were read.
public struct Pages<Item: Sendable>: AsyncSequence, Sendable {
    public typealias Element = Item
    public typealias Failure = EdgeSyncError
    typealias Fetch = @Sendable (_ after: String?) async throws(EdgeSyncError) -> Page<Item>

    private let fetch: Fetch

    init(_ fetch: @escaping Fetch) {
        self.fetch = fetch
    }

    /// One page, for apps that show pages.
    ///
    /// - Parameter after: ``Page/next`` of the page before; `nil` for the first page.
    public func page(after: String? = nil) async throws(EdgeSyncError) -> Page<Item> { try await fetch(after) }

    /// All items at once.
    ///
    /// - Parameter max: Limit of items, which bounds the memory.
    /// - Throws: `tooLarge` if there are more.
    public func all(max: Int = 10_000) async throws(EdgeSyncError) -> [Item] {
        var items: [Item] = []
        var iterator = makeAsyncIterator()
        while let item = try await iterator.next(isolation: nil) {
            guard items.count < max else {
                throw EdgeSyncError(.badAnswer, code: .tooLarge, "there are more than \(max) items", nextStep: "read page by page")
            }
            items.append(item)
        }
        return items
    }

    public func makeAsyncIterator() -> Iterator { Iterator(fetch: fetch) }

    public struct Iterator: AsyncIteratorProtocol {
        let fetch: Fetch
        private var items: ArraySlice<Item> = []
        private var cursor: String?
        private var isAtEnd = false

        init(fetch: @escaping Fetch) {
            self.fetch = fetch
        }

        public mutating func next() async throws(EdgeSyncError) -> Item? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(EdgeSyncError) -> Item? {
            while items.isEmpty {
                if isAtEnd { return nil }
                let page = try await fetch(cursor)
                if let next = page.next, next == cursor { throw .badAnswer("the page leads to itself") }
                (items, cursor, isAtEnd) = (page.items[...], page.next, page.next == nil)
            }
            return items.removeFirst()
        }
    }
}

extension Page {
    /// Reads a page of the agent.
    init(_ members: Members, _ read: (Members) throws(EdgeSyncError) -> Item) throws(EdgeSyncError) {
        if let detail = try members.optionalText("unknown_entity") {
            // The agent writes a whole sentence here. The details of other errors have no full stop.
            let detail = detail.hasSuffix(".") ? String(detail.dropLast()) : detail
            throw EdgeSyncError(.refused, code: .unknownEntity, detail, nextStep: EdgeSyncError.Code.unknownEntity.nextStep)
        }
        guard members.object["items"] != nil else { throw .badAnswer("the page has no items") }
        items = try members.list("items", read)
        // Records and mutations are continued by a text, files by a number.
        switch members.object["next"] {
        case .string(let text)?: next = text
        case .integer(let number)?: next = String(number)
        case nil, .null?: next = nil
        default: throw .badAnswer("the continuation of the page is neither a text nor a number")
        }
    }
}
