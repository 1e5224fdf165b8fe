import CSyncLinux
import Foundation
import Glibc
import ProcessStand
import SyncHTTP
import Testing

/// Descriptors that clients attach to their bytes. The server closes all descriptors that no request asked for, whatever bytes they came
/// with.
struct DescriptorTests {
    /// Sends `text` with `count` descriptors attached to its first byte.
    private func send(_ text: String, with count: Int, of file: MarkedFile, to client: Client) throws {
        let bytes = Array(text.utf8)
        let descriptors = [Int32](repeating: file.descriptor, count: count)
        guard sync_send_descriptors(client.descriptor, bytes, bytes.count, descriptors, Int32(count)) == 0 else {
            throw Client.Failure(what: "send descriptors \(errno)")
        }
    }

    private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    /// Answers by what was attached; keeps nothing open.
    @Sendable private static func taking(_ request: RequestHead) -> HTTPAdmission {
        .stream(limit: 100, takesDescriptor: true) { exchange in
            let attached = exchange.takeDescriptor()
            if case .one(let descriptor) = attached { HTTPExchange.closeDescriptor(descriptor) }
            exchange.respond(status: 200, body: Array(Self.word(attached).utf8))
        }
    }

    private static func word(_ attached: AttachedDescriptor) -> String {
        switch attached {
        case .none: "none"
        case .one: "one"
        case .several(let count): "\(count)"
        case .lost: "lost"
        }
    }

    @Test(
        "A request that takes no descriptors leaves none open, however many come with it",
        arguments: [1, 2, 3, 4, 17, 252, 253])
    func uninvitedDescriptorsAreClosed(count: Int) async throws {
        let admissions: [@Sendable (RequestHead) -> HTTPAdmission] = [
            echo,
            { _ in .refuse(status: 403, code: "forbidden", detail: "no") },
            { _ in .stream(limit: 100) { $0.respond(status: 200) } },
            // It may be taken, and the handler does not.
            { _ in .stream(limit: 100, takesDescriptor: true) { $0.respond(status: 200) } },
            Self.taking,
        ]
        for admit in admissions {
            try await withServer(admit: admit) { surroundings in
                let file = try MarkedFile(in: surroundings.directory)
                let client = try surroundings.client()
                for _ in 0..<3 {
                    try send(Self.get, with: count, of: file, to: client)
                    _ = try client.answer()
                    try await surroundings.turn()
                    #expect(try file.othersOpen() == 0)
                }
            }
        }
    }

    @Test("While the handler has the request, it holds one descriptor at the most, and none that it did not ask for")
    func heldMeanwhile() async throws {
        for (takes, count, held) in [(false, 1, 0), (false, 9, 0), (true, 1, 1), (true, 2, 0), (true, 253, 0)] {
            let exchanges = Log<HTTPExchange>()
            try await withServer(admit: { _ in
                .stream(limit: nil, takesDescriptor: takes) { exchanges.append($0) }
            }) { surroundings in
                let file = try MarkedFile(in: surroundings.directory)
                let client = try surroundings.client()
                try send(Self.get, with: count, of: file, to: client)
                let exchange = try #require(await exchanges.wait().first)
                try await surroundings.turn()
                #expect(try file.othersOpen() == held, "\(takes) \(count)")
                exchange.respond(status: 200)
                _ = try client.answer()
                try await surroundings.turn()
                #expect(try file.othersOpen() == 0, "\(takes) \(count)")
            }
        }
    }

    @Test(
        "The handler gets the one descriptor, hears of several, and of none", arguments: [(0, "none"), (1, "one"), (2, "2"), (253, "253")])
    func told(count: Int, word: String) async throws {
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            if count == 0 { try client.send(Self.get) } else { try send(Self.get, with: count, of: file, to: client) }
            #expect(try client.answer().body == word)
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("Descriptors that come with several parts of a head are several, and are closed before the head is whole")
    func partsOfHead() async throws {
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            for part in ["GET / HT", "TP/1.1\r\nHo", "st: a\r\n"] {
                try send(part, with: 2, of: file, to: client)
                try await self.untilRead(client, surroundings)
                #expect(try file.othersOpen() == 0)
            }
            try send("\r\n", with: 1, of: file, to: client)
            #expect(try client.answer().body == "7")
            try client.send(Self.get)
            #expect(try client.answer().body == "none")
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("A descriptor that comes with the body belongs to no request, neither to this one nor to the next")
    func withBody() async throws {
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            #expect(try client.answer().body == "none")
            try send("def", with: 3, of: file, to: client)
            try client.send(Self.get)
            #expect(try client.answer().body == "none")
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("One that comes with the end of a body and the whole next head belongs to the next request")
    func withNextHead() async throws {
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            try client.send(Self.get)
            #expect(try client.answer().body == "none")
            // Asked while the answer to the one before is awaited, which holds the bytes back.
            try send(Self.get + Self.get, with: 1, of: file, to: client)
            #expect(try client.answer().body == "one")
            #expect(try client.answer().body == "none")
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test(
        "Bytes that are no request leave none open, nor does a connection that ends within a head",
        arguments: [
            "\r\n", "GARBAGE\r\n\r\n", "GET / HTTP/1.1\r\n", "\0\0\0\0", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
        ])
    func broken(_ text: String) async throws {
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            for count in [1, 2, 253] {
                let client = try surroundings.client()
                try send(text, with: count, of: file, to: client)
                client.endSending()
                _ = try client.rest()
            }
            #expect(try await surroundings.isLeft())
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("A connection that is one too many leaves none open")
    func refusedConnection() async throws {
        try await withServer(limits: { $0.connections = 1 }, admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let first = try surroundings.client()
            try first.send(Self.get)
            _ = try first.answer()
            for _ in 0..<5 {
                let client = try surroundings.client()
                // The refusal may be there already, and the socket closed.
                try? send(Self.get, with: 253, of: file, to: client)
                _ = try? client.rest()
            }
            first.leave()
            #expect(try await surroundings.isLeft())
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("A thousand messages leave as many descriptors as there were before")
    func many() async throws {
        try await withServer(admit: echo) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            try client.send(Self.get)
            _ = try client.answer()
            for number in 0..<1_000 {
                try send(Self.get, with: 1 + number % 5, of: file, to: client)
                _ = try client.answer()
            }
            try await surroundings.turn()
            #expect(try file.othersOpen() == 0)
        }
    }

    @Test("A process that is out of descriptors closes what it got of a message, tells that one is lost, and goes on")
    func outOfDescriptors() async throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(7), &limit)
        try await withServer(admit: Self.taking) { surroundings in
            let file = try MarkedFile(in: surroundings.directory)
            let client = try surroundings.client()
            try client.send(Self.get)
            _ = try client.answer()
            // Room for two more: the lowest free number and the one after it.
            let first = dup(file.descriptor), second = dup(file.descriptor)
            close(first)
            close(second)
            var low = limit
            low.rlim_cur = rlim_t(max(first, second) + 1)
            let descriptors = [Int32](repeating: file.descriptor, count: 9)
            let bytes = Array(Self.get.utf8)
            setrlimit(__rlimit_resource_t(7), &low)
            let sent = sync_send_descriptors(client.descriptor, bytes, bytes.count, descriptors, 9)
            let answer = Result { try client.answer() }
            setrlimit(__rlimit_resource_t(7), &limit)
            #expect(sent == 0)
            #expect(try answer.get().body == "lost")
            #expect(try file.othersOpen() == 0)
            try send(Self.get, with: 1, of: file, to: client)
            #expect(try client.answer().body == "one")
        }
    }

    /// Waits until the server has read all that this client has sent.
    private func untilRead(_ client: Client, _ surroundings: Surroundings) async throws {
        for _ in 0..<100_000 {
            var unread: Int32 = 0
            guard ioctl(client.descriptor, UInt(SIOCOUTQ), &unread) == 0, unread > 0 else { break }
            try await surroundings.turn()
        }
        try await surroundings.turn()
    }

    private var SIOCOUTQ: Int32 { 0x5411 }
}

struct OpenDescriptorsTests {
    @Test("A descriptor that is not closed is found, with its kind, and is no more once it is")
    func findsOne() throws {
        let before = try ProcessResources.descriptors()
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        close(ends[1])
        #expect(ProcessResources.leftOver(try ProcessResources.descriptors(), since: before) == ["pipe": 1])
        close(ends[0])
        #expect(ProcessResources.leftOver(try ProcessResources.descriptors(), since: before).isEmpty)
    }
}

/// `sync_control_descriptors` over bytes: control messages as the kernel writes them, and as it never would.
struct ControlMessageTests {
    private func message(_ level: Int32, _ type: Int32, _ values: [Int32], length: Int? = nil) -> [UInt8] {
        var bytes: [UInt8] = []
        withUnsafeBytes(of: UInt(length ?? 16 + values.count * 4)) { bytes += $0 }
        for value in [level, type] + values { withUnsafeBytes(of: value) { bytes += $0 } }
        return bytes + [UInt8](repeating: 0, count: (8 - bytes.count % 8) % 8)
    }

    private func found(_ bytes: [UInt8], type: Int32 = 1, capacity: Int = 512) -> (count: Int, descriptors: [Int32]) {
        var descriptors = [Int32](repeating: -1, count: capacity)
        let count = sync_control_descriptors(bytes, bytes.count, type, &descriptors, Int32(capacity))
        return (Int(count), Array(descriptors.prefix(min(capacity, Int(count)))))
    }

    @Test("Descriptors are found in their order, whatever other messages stand around them")
    func order() {
        let credentials = message(SOL_SOCKET, 2, [100, 0, 0])
        let label = message(SOL_SOCKET, 3, [0x6e_75_63_6f])
        let pidfd = message(SOL_SOCKET, 4, [77])
        let bytes = credentials + message(SOL_SOCKET, 1, [5, 6, 7]) + label + message(0, 1, [8]) + pidfd + message(SOL_SOCKET, 1, [9])
        #expect(found(bytes) == (4, [5, 6, 7, 9]))
        #expect(found(bytes, type: 4) == (1, [77]))
        #expect(found([]) == (0, []))
        #expect(found(message(SOL_SOCKET, 1, Array(1...253))) == (253, Array(1...253)))
    }

    @Test("Descriptors that do not fit are counted and not written")
    func capacity() {
        #expect(found(message(SOL_SOCKET, 1, [5, 6, 7]), capacity: 2) == (3, [5, 6]))
        #expect(found(message(SOL_SOCKET, 1, [5, 6, 7]), capacity: 0) == (3, []))
    }

    @Test(
        "A length that cannot be ends the reading; a rest that is no descriptor is ignored",
        arguments: [(0, 0), (1, 0), (15, 0), (16, 0), (17, 0), (20, 1), (23, 1), (24, 2), (25, 0), (Int.max, 0), (-1, 0), (-8, 0)])
    func lengths(length: Int, count: Int) {
        var bytes = message(SOL_SOCKET, 1, [5, 6])
        withUnsafeBytes(of: length) { bytes.replaceSubrange(0..<8, with: $0) }
        #expect(found(bytes).count == count)
    }

    @Test("Any prefix of a message is read without going beyond it")
    func prefixes() {
        let bytes = message(SOL_SOCKET, 1, [5, 6]) + message(SOL_SOCKET, 1, [7])
        let counts = (0...bytes.count).map { found(Array(bytes.prefix($0))).count }
        #expect(counts == counts.sorted() && counts.last == 3)
    }
}
