import RepetitionOracle
import SyncCore
import Testing

/// Servers that answer every request and take no file. Each ends as a failure that is told, after a few requests.
@Suite("Uploads to servers that bring a file no further")
struct UploadWithoutEndTests {
    /// A server that has an answer for everything: what it holds, and how it lies.
    struct Liar: Sendable, CustomTestStringConvertible {
        var what: String
        var server = UploadMachineTests.foreign
        var lie: @Sendable (UploadMachine.Request, _ number: Int, _ state: inout State) -> HTTPResponse
        /// Codes of the ending, any of them.
        var codes: Set<String> = ["no-progress", "upload-mixed-up", "digest-mismatch"]
        var testDescription: String { what }

        struct State: Sendable { var offset: Int64 = 0, made = 0 }

        init(
            _ what: String, server: UploadMachine.Server = UploadMachineTests.foreign,
            _ lie: @escaping @Sendable (UploadMachine.Request, Int, inout State) -> HTTPResponse
        ) {
            (self.what, self.server, self.lie) = (what, server, lie)
        }

        /// As an honest server, but for what the lie says.
        static func honest(_ request: UploadMachine.Request, _ state: inout State, _ server: UploadMachine.Server) -> HTTPResponse {
            switch request {
            case .lookUp: return UploadMachineTests.reply(404)
            case .create(let count):
                state.made += 1
                state.offset = Int64(count ?? 0)
                return UploadMachineTests.reply(201, ["Location": "\(server.files)/\(state.made)", Tus.offset: "\(state.offset)"])
            case .ask: return UploadMachineTests.reply(200, [Tus.offset: "\(state.offset)"])
            case .send(let offset, let count):
                state.offset = offset + Int64(count)
                return UploadMachineTests.reply(204, [Tus.offset: "\(state.offset)"])
            case .verify, .destroy: return UploadMachineTests.reply(204)
            }
        }
    }

    private static func patch(
        _ what: String, server: UploadMachine.Server = UploadMachineTests.foreign,
        _ lie: @escaping @Sendable (Int64, Int64, inout Liar.State) -> HTTPResponse
    ) -> Liar {
        Liar(what, server: server) { request, _, state in
            guard case .send(let offset, let count) = request else { return Liar.honest(request, &state, server) }
            return lie(offset, Int64(count), &state)
        }
    }

    private static let hub = UploadMachineTests.hub

    static let liars: [Liar] = [
        patch("PATCH answers no offset") { _, _, _ in UploadMachineTests.reply(204) },
        patch("PATCH answers no offset, at the hub", server: hub) { _, _, _ in UploadMachineTests.reply(204) },
        patch("PATCH answers the old offset") { offset, _, _ in UploadMachineTests.reply(204, [Tus.offset: "\(offset)"]) },
        patch("PATCH answers a smaller offset") { offset, _, _ in UploadMachineTests.reply(204, [Tus.offset: "\(max(0, offset - 1))"]) },
        patch("PATCH answers a larger offset") { offset, count, _ in
            UploadMachineTests.reply(204, [Tus.offset: "\(offset + count + 1)"])
        },
        patch("PATCH answers 2^63") { _, _, _ in UploadMachineTests.reply(204, [Tus.offset: "9223372036854775808"]) },
        patch("PATCH answers 2^63 - 1") { _, _, _ in UploadMachineTests.reply(204, [Tus.offset: "9223372036854775807"]) },
        patch("PATCH takes one byte each time") { offset, _, state in
            state.offset = offset + 1
            return UploadMachineTests.reply(204, [Tus.offset: "\(offset + 1)"])
        },
        patch("PATCH takes one byte each time, and HEAD tells") { offset, _, state in
            state.offset = offset + 1
            return UploadMachineTests.reply(204)
        },
        patch("PATCH fails after one byte") { offset, _, state in
            state.offset = offset + 1
            return UploadMachineTests.reply(500)
        },
        patch("PATCH is in conflict for ever") { _, _, _ in UploadMachineTests.reply(409) },
        patch("PATCH is locked for ever") { _, _, _ in UploadMachineTests.reply(423) },
        patch("PATCH is busy for ever") { _, _, _ in UploadMachineTests.reply(503) },
        patch("PATCH is answered by a portal for ever") { _, _, _ in
            UploadMachineTests.reply(200, tus: false, hub: false, body: "<html>")
        },
        patch("PATCH is answered by a proxy for ever, at the hub", server: hub) { _, _, _ in
            UploadMachineTests.reply(413, tus: false, hub: false)
        },
        patch("PATCH forgets the upload") { _, _, _ in UploadMachineTests.reply(404) },
        patch("PATCH forgets the upload, at the hub", server: hub) { _, _, _ in UploadMachineTests.reply(404) },
        patch("takes a piece, and loses all with the next") { offset, count, state in
            guard offset == 0 else {
                state.offset = 0
                return UploadMachineTests.reply(409)
            }
            state.offset = count
            return UploadMachineTests.reply(204, [Tus.offset: "\(count)"])
        },
        patch("takes a piece, and forgets the upload with the next") { offset, count, state in
            guard offset == 0 else { return UploadMachineTests.reply(404) }
            state.offset = count
            return UploadMachineTests.reply(204, [Tus.offset: "\(count)"])
        },
        Liar("HEAD knows no upload, POST answers no offset") { request, _, state in
            switch request {
            case .create: UploadMachineTests.reply(201, ["Location": "/files/1"])
            case .ask: UploadMachineTests.reply(404)
            case .send: UploadMachineTests.reply(204)
            default: Liar.honest(request, &state, UploadMachineTests.foreign)
            }
        },
        Liar("POST leads elsewhere") { request, _, state in
            if case .create = request { return UploadMachineTests.reply(201, ["Location": "https://elsewhere.example/files/1"]) }
            return Liar.honest(request, &state, UploadMachineTests.foreign)
        },
        Liar("POST leads to another place each time, and none is there") { request, number, state in
            switch request {
            case .create: UploadMachineTests.reply(201, ["Location": "/files/\(number)"])
            case .ask, .send: UploadMachineTests.reply(410)
            default: Liar.honest(request, &state, UploadMachineTests.foreign)
            }
        },
        Liar("HEAD tells more than was sent") { request, _, state in
            if case .ask = request { return UploadMachineTests.reply(200, [Tus.offset: "9999999999"]) }
            if case .send = request { return UploadMachineTests.reply(204) }
            return Liar.honest(request, &state, UploadMachineTests.foreign)
        },
        Liar("HEAD tells another length") { request, _, state in
            if case .ask = request { return UploadMachineTests.reply(200, [Tus.offset: "0", Tus.length: "1"]) }
            if case .send = request { return UploadMachineTests.reply(204) }
            return Liar.honest(request, &state, UploadMachineTests.foreign)
        },
        Liar("the hub has all bytes and does not know the file", server: hub) { request, _, state in
            Liar.honest(request, &state, hub)
        },
        Liar("the hub has all bytes and cannot tell the digest", server: hub) { request, number, state in
            if request == .lookUp, number > 1 { return UploadMachineTests.reply(405) }
            return Liar.honest(request, &state, hub)
        },
        Liar("the digest is another one each time") { request, _, state in
            if case .verify = request { return UploadMachineTests.reply(500) }
            return Liar.honest(request, &state, UploadMachineTests.foreign)
        },
    ]

    /// Runs one file against a server for a simulated day, or to its end.
    private static func run(_ liar: Liar, size: Int64 = 20_000_000) -> (rig: BlobUploaderTests.Rig, oracle: RepetitionOracle) {
        var rig = BlobUploaderTests.Rig(server: liar.server)
        var limits = RepetitionOracle.Limits()
        (limits.requests, limits.same) = (60, 12)
        var oracle = RepetitionOracle(limits: limits)
        var state = Liar.State()
        rig.load(BlobUploaderTests.Rig.job(1, size: size))
        let end = rig.moment.instant.advanced(by: .seconds(24 * 3600))
        while rig.ended.isEmpty, rig.moment.instant < end {
            guard let call = rig.open.first else {
                guard let wake = rig.wakeAt else { break }
                rig.pass(max(.milliseconds(10), rig.moment.instant.duration(to: wake)))
                continue
            }
            var sent = 0
            if case .send(_, let count) = call.request { sent = count }
            oracle.saw("\(call.request)", bodyBytes: sent, atSeconds: rig.moment.instant.nanoseconds / 1_000_000_000)
            let response = liar.lie(call.request, oracle.count, &state)
            if call.request == .verify, liar.server.verify == .download {
                rig.answered.insert(call.id)
                rig.handle(.downloaded(call.id, .success(UploadMachineTests.other)))
            } else {
                rig.moment.instant = rig.moment.instant.advanced(by: .milliseconds(1))
                rig.answer(call, response, took: .milliseconds(1))
            }
            if oracle.count > 5_000 { break }
        }
        return (rig, oracle)
    }

    @Test("A server that brings a file no further: the file fails and says why, after few requests and few bytes", arguments: liars)
    func ends(_ liar: Liar) {
        let (rig, oracle) = Self.run(liar)
        #expect(oracle.complaints == [])
        #expect(oracle.count <= 120, "\(oracle.count) requests")
        #expect(oracle.bytes <= UploadMachine.spentMax(size: 20_000_000) + Int64(ChunkSizer.largest), "\(oracle.bytes) bytes")
        #expect(rig.ended == [BlobID(1)])
        let ending = rig.effects.compactMap { effect -> (code: String, why: String)? in
            if case .end(_, .failed(let code, let why, _)) = effect { (code, why) } else { nil }
        }.first
        #expect(ending.map { liar.codes.contains($0.code) } == true, "\(String(describing: ending))")
        #expect(ending?.why.isEmpty == false)
    }

    @Test("A file that goes nowhere does not hold up the others")
    func others() {
        var rig = BlobUploaderTests.Rig(concurrent: 1)
        rig.load(BlobUploaderTests.Rig.job(1, size: 2_000_000), BlobUploaderTests.Rig.job(2, size: 3_000_000))
        for _ in 0..<400 where !rig.ended.contains(BlobID(2)) {
            guard let call = rig.open.first else {
                rig.pass(.seconds(1))
                continue
            }
            if call.job.id == BlobID(1), case .send(let offset, _) = call.request {
                rig.answer(call, UploadMachineTests.reply(204, [Tus.offset: "\(offset)"]))
            } else {
                rig.serve(call)
            }
        }
        #expect(rig.ended.contains(BlobID(2)))
    }

    @Test("The place of another file's upload is not taken for this one's")
    func samePlace() {
        var rig = BlobUploaderTests.Rig(concurrent: 2)
        rig.load(BlobUploaderTests.Rig.job(1, size: 2_000_000), BlobUploaderTests.Rig.job(2, size: 3_000_000))
        for call in rig.open { rig.answer(call, UploadMachineTests.reply(201, ["Location": "/files/1", Tus.offset: "0"])) }
        #expect(rig.open.map(\.job.id) == [BlobID(1)])
        #expect(rig.effects.contains(.report(.waits(BlobID(2), why: "the server gave the upload the place of another one"))))
    }

    @Test(
        "A proxy that answers in the hub's place decides nothing about a file, whatever its status",
        arguments: [
            UploadMachineTests.State.fresh, .absent, .made, .half, .resumed, .last, .whole, .spoiled,
        ])
    func foreignAnswers(_ state: UploadMachineTests.State) {
        for status in 200...599 {
            var machine = UploadMachineTests.machine(state == .spoiled ? .last : state, Self.hub)
            let before = machine
            let request = machine.request(Self.hub, chunk: UploadMachineTests.chunk)
            let headers: HTTPHeaders = [
                "Location": "\(Self.hub.files)/evil", Tus.offset: "10000", Tus.resumable: "1.0.0",
                Tus.reprDigest: UploadMachineTests.digest.field,
                "Upload-Length": "1",
            ]
            let response = HTTPResponse(status: status, headers: headers, body: Array("digest-mismatch".utf8))
            guard case .wait(counts: false, _, _) = machine.answered(request, response, Self.hub, at: UploadMachineTests.now) else {
                Issue.record("\(status) to \(request) decides")
                continue
            }
            #expect(machine.progress.url == before.progress.url && machine.progress.offset == before.progress.offset, "\(status)")
            #expect(machine.progress.attempts == before.progress.attempts && machine.progress.restarts == before.progress.restarts)
        }
    }

    @Test("The limits of the oracle hold back a client that does not wait")
    func control() {
        // The same file and server, by a client that follows every answer at once.
        var limits = RepetitionOracle.Limits()
        (limits.requests, limits.same) = (60, 12)
        var oracle = RepetitionOracle(limits: limits)
        var machine = UploadMachineTests.machine(.made, UploadMachineTests.foreign)
        for _ in 0..<200 {
            let request = machine.request(UploadMachineTests.foreign, chunk: 4_000)
            oracle.saw("\(request)", atSeconds: 0)
            guard case .send(let offset, _) = request else { break }
            _ = machine.answered(
                request, UploadMachineTests.reply(204, [Tus.offset: "\(offset)"]), UploadMachineTests.foreign, at: UploadMachineTests.now)
        }
        #expect(oracle.complaints.count == 2)
    }
}
