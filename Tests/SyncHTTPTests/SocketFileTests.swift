import CSyncLinux
import Glibc
import SyncHTTP
import Testing

/// The socket's file, and the sockets that others make for us.
struct SocketFileTests {
    private func start(
        _ path: String, mode: UInt16 = 0o660, group: UInt32? = nil, _ body: (HTTPServer) async throws -> Void
    ) async throws {
        try await withLoop { loops in
            let configuration = HTTPServerConfiguration(
                endpoint: .unix(path: path, mode: mode, group: group), problemBody: { _ in [] })
            let server = try await HTTPServer.start(configuration, on: loops, handler: ClosureHandler(closure: echo))
            do {
                try await body(server)
            } catch {
                await server.stop(within: .zero)
                throw error
            }
            await server.stop(within: .zero)
        }
    }

    private func failure(_ path: String) async throws -> HTTPServerError? {
        do {
            try await start(path) { _ in }
            return nil
        } catch let error as HTTPServerError {
            return error
        }
    }

    private func mode(_ path: String) -> mode_t? {
        var found = stat()
        return lstat(path, &found) == 0 ? found.st_mode : nil
    }

    private func expectAnswer(at path: String) throws {
        let client = try Client(path: path)
        try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.answer().status == 200)
    }

    @Test(
        "The file has the wanted mode and group, whatever the umask leaves",
        arguments: [
            0o600, 0o660, 0o666, 0o700 as UInt16,
        ])
    func fileMode(_ wanted: UInt16) async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            try await start(path, mode: wanted, group: getgid()) { _ in
                #expect(mode(path) == S_IFSOCK | mode_t(wanted))
                var found = stat()
                #expect(lstat(path, &found) == 0)
                #expect(found.st_gid == getgid())
                try expectAnswer(at: path)
            }
            #expect(mode(path) == nil, "the file was left behind")
        }
    }

    @Test("The file is never wider than asked for, from its first moment on")
    func firstMode() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            // The mode with which the server begins, before it sets group and mode. Without the trick bind() makes it 0777 less the umask.
            let descriptor = sync_unix_listen(path, 0o600, 1)
            #expect(descriptor >= 0)
            #expect(mode(path) == S_IFSOCK | 0o600)
            close(descriptor)
        }
    }

    @Test("The group is given to the file", .enabled(if: geteuid() == 0))
    func foreignGroup() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            try await start(path, group: 12_345) { _ in
                var found = stat()
                #expect(lstat(path, &found) == 0)
                #expect(found.st_gid == 12_345)
                #expect(found.st_mode == S_IFSOCK | 0o660)
            }
        }
    }

    @Test("A dead socket of ours is replaced")
    func staleSocket() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            close(sync_unix_listen(path, 0o600, 1))
            #expect(mode(path) != nil)
            try await start(path) { _ in try expectAnswer(at: path) }
        }
    }

    @Test("A socket with a listener is left alone")
    func liveSocket() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            try await start(path) { _ in
                let error = try await failure(path)
                #expect(error?.code == .addressInUse)
                #expect(error?.description == "listen on \(path): another process listens there")
                try expectAnswer(at: path)
            }
        }
    }

    @Test("A socket whose owner is too busy to answer is left alone")
    func busySocket() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            // The listener accepts no connection, and its queue is full after a few.
            let descriptor = sync_unix_listen(path, 0o600, 0)
            defer { close(descriptor) }
            var waiting: [Int32] = []
            while waiting.count < 100 {
                let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
                waiting.append(client)
                var address = sockaddr_un()
                sync_unix_address(path, &address)
                let isConnected = withUnsafePointer(to: &address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        connect(client, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
                    }
                }
                if !isConnected { break }
            }
            let error = try await failure(path)
            #expect(error?.code == .addressInUse)
            for client in waiting { close(client) }
        }
    }

    @Test("A file that is no socket is left alone", arguments: ["file", "link", "directory", "fifo"])
    func notASocket(_ kind: String) async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            switch kind {
            case "file": close(open(path, O_CREAT | O_WRONLY, 0o600))
            case "link":
                // Even one that leads to a dead socket of ours.
                close(sync_unix_listen(directory + "/b.sock", 0o600, 1))
                symlink(directory + "/b.sock", path)
            case "directory": mkdir(path, 0o700)
            default: mkfifo(path, 0o600)
            }
            let before = mode(path)
            let error = try await failure(path)
            #expect(error?.code == .notASocket)
            #expect(mode(path) == before)
        }
    }

    @Test("A socket of another user is left alone, even a dead one", .enabled(if: geteuid() == 0))
    func foreignSocket() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            close(sync_unix_listen(path, 0o600, 1))
            lchown(path, 4_242, 4_242)
            let error = try await failure(path)
            #expect(error?.code == .foreignSocket)
            #expect(mode(path) != nil)
        }
    }

    @Test(
        "A directory where others could replace the socket is refused", .enabled(if: geteuid() == 0),
        arguments: [
            (4_242 as uid_t, 0o755 as mode_t, false), (0, 0o777, false), (0, 0o1777, true), (0, 0o755, true),
        ])
    func directories(owner: uid_t, mode: mode_t, isFine: Bool) async throws {
        try await withDirectory { directory in
            chmod(directory, mode)
            chown(directory, owner, owner)
            let error = try await failure(directory + "/a.sock")
            #expect(error?.code == (isFine ? nil : .badDirectory))
        }
    }

    @Test(
        "A path that cannot be is refused",
        arguments: [
            ("", HTTPServerError.Code.badPath), ("/tmp/a\0b", .badPath), ("/nowhere/a.sock", .badDirectory),
            ("/tmp/" + String(repeating: "a", count: 103), .badPath),
        ])
    func badPaths(path: String, code: HTTPServerError.Code) async throws {
        let error = try await failure(path)
        #expect(error?.code == code)
    }

    @Test("107 bytes of path are enough for every use")
    func longestPath() async throws {
        try await withDirectory { directory in
            let path = directory + "/" + String(repeating: "a", count: 107 - directory.utf8.count - 1)
            try await start(path) { _ in
                try expectAnswer(at: path)
                let error = try await failure(path)
                #expect(error?.code == .addressInUse)
            }
        }
    }

    @Test("A file that another program has put in the socket's place is not removed at the end")
    func replacedFile() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            try await start(path) { _ in
                unlink(path)
                close(sync_unix_listen(path, 0o600, 1))
            }
            #expect(mode(path) == S_IFSOCK | 0o600)
        }
    }

    // MARK: Inherited sockets

    @Test("An inherited socket is served, and its file left")
    func inherited() async throws {
        try await withDirectory { directory in
            let path = directory + "/a.sock"
            let descriptor = sync_unix_listen(path, 0o600, 8)
            // A client that connected before the server started is served, too: activation exists for that.
            let early = try Client(path: path)
            try early.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
            try await withLoop { loops in
                let configuration = HTTPServerConfiguration(
                    endpoint: .inherited(descriptor: descriptor), problemBody: { _ in [] })
                let handler = ClosureHandler(closure: echo)
                let server = try await HTTPServer.start(configuration, on: loops, handler: handler)
                #expect(server.address == .unix(path: path))
                #expect(try early.answer().body == "GET /early ")
                try expectAnswer(at: path)
                await server.stop(within: .zero)
            }
            #expect(mode(path) != nil)
        }
    }

    @Test(
        "systemd's variables are believed only if they are meant for this process",
        arguments: [
            (["LISTEN_FDS": "2", "LISTEN_PID": "77"], 77 as Int32, 2), (["LISTEN_FDS": "2", "LISTEN_PID": "78"], 77, 0),
            ([:], 77, 0), (["LISTEN_FDS": "2"], 77, 0), (["LISTEN_FDS": "0", "LISTEN_PID": "77"], 77, 0),
            (["LISTEN_FDS": "-1", "LISTEN_PID": "77"], 77, 0), (["LISTEN_FDS": "x", "LISTEN_PID": "77"], 77, 0),
        ])
    func activation(environment: [String: String], processID: Int32, count: Int) throws {
        // Descriptors 3 and 4 of the test's process are whatever they are, which is no listening socket.
        do {
            let endpoints = try HTTPEndpoint.activated(environment: environment, processID: processID)
            #expect(endpoints.isEmpty && count == 0)
        } catch {
            #expect(count > 0)
            #expect(error.code == .notListening)
        }
    }

    @Test("A descriptor that is no listening socket is refused")
    func notListening() async throws {
        try await withLoop { loops in
            var pair: [Int32] = [0, 0]
            socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair)
            defer { pair.forEach { close($0) } }
            for descriptor in [pair[0], -1] {
                let configuration = HTTPServerConfiguration(
                    endpoint: .inherited(descriptor: descriptor), problemBody: { _ in [] })
                await #expect(throws: HTTPServerError.self) {
                    _ = try await HTTPServer.start(configuration, on: loops, handler: ClosureHandler(closure: echo))
                }
            }
        }
    }

    // MARK: TCP

    @Test("A TCP server says which port it got, for addresses and names", arguments: ["127.0.0.1", "::1", "localhost"])
    func tcpAddress(host: String) async throws {
        try await withLoop { loops in
            let configuration = HTTPServerConfiguration(endpoint: .tcp(host: host, port: 0), problemBody: { _ in [] })
            let server: HTTPServer
            do {
                server = try await HTTPServer.start(configuration, on: loops, handler: ClosureHandler(closure: echo))
            } catch  where host == "::1" {
                // A machine without IPv6.
                return
            }
            guard case .tcp(let bound, let port) = server.address else {
                Issue.record("not a TCP address")
                return
            }
            #expect(host == "localhost" || bound == host)
            #expect(port > 0)
            await server.stop(within: .zero)
        }
    }

    @Test("A port in use and a name without an address are told apart")
    func tcpFailures() async throws {
        try await withServer(on: .tcp, admit: echo) { surroundings in
            guard case .tcp(let host, let port) = surroundings.server.address else { return }
            for (endpoint, code) in [
                (HTTPEndpoint.tcp(host: host, port: port), HTTPServerError.Code.addressInUse),
                (.tcp(host: "no such host", port: 0), .unresolved),
            ] {
                let configuration = HTTPServerConfiguration(endpoint: endpoint, problemBody: { _ in [] })
                let error = await #expect(throws: HTTPServerError.self) {
                    _ = try await withOneServer(configuration)
                }
                #expect(error?.code == code)
            }
        }
    }

    @Test("An address that this machine does not have is told in the words of the system")
    func foreignAddress() async throws {
        // 203.0.113.0/24 is for documents alone (RFC 5737).
        let configuration = HTTPServerConfiguration(endpoint: .tcp(host: "203.0.113.7", port: 0), problemBody: { _ in [] })
        let error = await #expect(throws: HTTPServerError.self) { _ = try await withOneServer(configuration) }
        #expect(
            error?.description == "listen on 203.0.113.7:0: Cannot assign requested address; the addresses of this machine: "
                + "ip -brief address")
    }

    private func withOneServer(_ configuration: HTTPServerConfiguration) async throws {
        try await withLoop { loops in
            _ = try await HTTPServer.start(configuration, on: loops, handler: ClosureHandler(closure: echo))
        }
    }
}
