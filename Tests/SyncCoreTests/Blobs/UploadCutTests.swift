import SyncCore
import Testing

/// One photo over a link that breaks once, at any byte.
@Suite("Uploads that break off")
struct UploadCutTests {
    private static let size: Int64 = 4_000_000

    enum Cut: String, CaseIterable, Sendable {
        /// The link breaks in the middle of a request.
        case link
        /// The agent dies there and begins anew with what it had saved.
        case death
        /// All that was sent arrives, and the answer does not.
        case answer
    }

    /// As the hub: what of a piece has arrived before the link breaks is kept, and a new upload is of use only to who hears its place.
    private struct Server {
        var offset: Int64?
        var uploads = 0
        /// Bytes of the file that went over the link.
        var carried: Int64 = 0
        /// Offset at which the link breaks, bytes; `nil` once it has.
        var breaksAt: Int64?
        let cut: Cut

        mutating func serve(_ request: UploadMachine.Request) -> HTTPResponse? {
            switch request {
            case .lookUp:
                return UploadMachineTests.reply(
                    offset == UploadCutTests.size ? 204 : 404,
                    offset == UploadCutTests.size ? [Tus.reprDigest: UploadMachineTests.digest.field] : [:])
            case .create(let count):
                uploads += 1
                let whole = carry(Int64(count ?? 0))
                guard whole.isAnswered else { return nil }
                offset = whole.arrived
                return UploadMachineTests.reply(201, ["Location": "/v1/files/\(uploads)", Tus.offset: "\(whole.arrived)"])
            case .ask: return UploadMachineTests.reply(200, [Tus.offset: "\(offset ?? 0)", Tus.length: "\(UploadCutTests.size)"])
            case .send(let from, let count):
                guard from == offset else { return UploadMachineTests.reply(409) }
                let part = carry(Int64(count))
                offset = from + part.arrived
                return part.isAnswered ? UploadMachineTests.reply(204, [Tus.offset: "\(from + part.arrived)"]) : nil
            case .verify, .destroy: return UploadMachineTests.reply(204)
            }
        }

        private mutating func carry(_ count: Int64) -> (arrived: Int64, isAnswered: Bool) {
            guard let at = breaksAt, carried + count > at else {
                carried += count
                return (count, true)
            }
            breaksAt = nil
            let arrived = cut == .answer ? count : at - carried
            carried += arrived
            return (arrived, false)
        }
    }

    @Test("After one cut at any of fifty places the link has carried hardly more than the file", arguments: Cut.allCases)
    func sweep(_ cut: Cut) {
        let hub = UploadMachineTests.hub
        for place in 0..<50 {
            var rig = BlobUploaderTests.Rig(server: hub)
            // Quick ones before have made the pieces as large as they get.
            rig.load(BlobUploaderTests.Rig.job(9, size: 30_000_000))
            for _ in 0..<20 { for call in rig.open { rig.answer(call, Self.goodAnswer(call)) } }
            var server = Server(breaksAt: Self.size * Int64(place) / 50, cut: cut)
            rig.handle(.added(BlobUploaderTests.Rig.job(1, size: Self.size)))
            var rounds = 0
            while !rig.ended.contains(BlobID(1)), rounds < 60 {
                rounds += 1
                guard let call = rig.open.first(where: { $0.job.id == BlobID(1) }) else {
                    rig.pass(.seconds(61))
                    continue
                }
                if let response = server.serve(call.request) {
                    rig.answer(call, response)
                } else if cut == .death {
                    var job = BlobUploaderTests.Rig.job(1, size: Self.size)
                    for case .save(BlobID(1), let progress) in rig.effects { job.progress = progress }
                    rig = BlobUploaderTests.Rig(server: hub)
                    rig.load(job)
                } else {
                    rig.fail(call, .broken)
                }
            }
            #expect(rig.ended.contains(BlobID(1)), "\(cut) at \(place)")
            #expect(server.offset == Self.size)
            #expect(server.carried <= Self.size * 105 / 100, "\(cut) at \(place): \(server.carried)")
        }
    }

    private static func goodAnswer(_ call: BlobUploader.Call) -> HTTPResponse {
        switch call.request {
        case .lookUp: UploadMachineTests.reply(404)
        case .create(let count): UploadMachineTests.reply(201, ["Location": "/v1/files/x", Tus.offset: "\(count ?? 0)"])
        case .send(let offset, let count):
            UploadMachineTests.reply(204, [Tus.offset: "\(offset + Int64(count))", Tus.reprDigest: UploadMachineTests.digest.field])
        case .ask, .verify, .destroy: UploadMachineTests.reply(204)
        }
    }

    @Test("Behind a proxy that takes 1 MiB a file costs two refusals, and the next ones cost none")
    func proxyLimit() {
        var rig = BlobUploaderTests.Rig(server: UploadMachineTests.hub)
        rig.load(BlobUploaderTests.Rig.job(1, size: 50_000_000), BlobUploaderTests.Rig.job(2, size: 60_000_000))
        var offsets: [BlobID: Int64] = [:]
        var (refusals, waited) = (0, 0)
        for _ in 0..<400 where !rig.ended.contains(BlobID(2)) {
            guard let call = rig.open.first else {
                waited += 1
                rig.pass(.seconds(61))
                continue
            }
            let id = call.job.id
            switch call.request {
            case .send(let offset, let count) where count > 1 << 20:
                #expect(offset == offsets[id])
                refusals += 1
                rig.answer(call, HTTPResponse(status: 413, body: Array("<html>413 Request Entity Too Large".utf8)))
            case .send(_, let count):
                offsets[id, default: 0] += Int64(count)
                rig.answer(call, Self.goodAnswer(call))
            case .ask: rig.answer(call, UploadMachineTests.reply(200, [Tus.offset: "\(offsets[id] ?? 0)"]))
            case .create:
                offsets[id] = 0
                rig.answer(call, UploadMachineTests.reply(201, ["Location": "/v1/files/\(id)", Tus.offset: "0"]))
            case .lookUp: rig.answer(call, UploadMachineTests.reply(404))
            case .verify, .destroy: rig.answer(call, UploadMachineTests.reply(204))
            }
        }
        #expect(rig.ended.contains(BlobID(1)) && rig.ended.contains(BlobID(2)))
        // Three files may be on their way at a time, so the first size may be refused to more than one.
        #expect(refusals <= 4, "\(refusals)")
        #expect(waited == 0, "\(waited)")
    }
}
