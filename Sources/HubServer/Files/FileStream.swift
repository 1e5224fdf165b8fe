import NIOCore
import SyncCore
import SyncHTTP

/// Carries the body of one request to the disk, piece by piece. The socket's loop reads, the files' loop writes, and the next piece is read
/// after the one before is written. A body of any size therefore costs the memory of one piece, and a slow disk slows the client down.
final class FileIntake: @unchecked Sendable {
    // Unchecked: `sum` belongs to the files' loop; everything else is constant.
    private let exchange: HTTPExchange
    private let grant: UploadGrant
    private let uploads: HubUploads
    private let loop: any EventLoop
    private let done: @Sendable (UploadEnd) -> Void
    private var sum: SHA256?

    /// - Parameter done: Called on the files' loop, once.
    init(
        _ exchange: HTTPExchange, _ grant: UploadGrant, _ uploads: HubUploads, on loop: any EventLoop,
        done: @escaping @Sendable (UploadEnd) -> Void
    ) {
        self.exchange = exchange
        self.grant = grant
        self.uploads = uploads
        self.loop = loop
        self.done = done
        sum = grant.checksum.map { _ in SHA256() }
    }

    func begin() {
        exchange.readBody { [self] part in loop.execute { self.receive(part) } }
    }

    private func receive(_ part: HTTPExchange.BodyPart) {
        switch part {
        case .bytes(let bytes):
            if let end = UploadBody.append(bytes, grant, &sum, uploads) { return done(end) }
            begin()
        case .end: done(UploadBody.finish(grant, sum, uploads))
        // Bytes before the cut are valid, unless only a checksum of the whole piece could prove it.
        case .failed:
            if grant.checksum != nil { uploads.undo(grant) }
            done(UploadBody.finish(grant, nil, uploads, isCut: true))
        }
    }
}

/// Sends a blob, or a range of it: reads it on the files' loop, as fast as the client accepts it.
final class FileOutput: @unchecked Sendable {
    // Unchecked: `offset` belongs to the files' loop.
    private let exchange: HTTPExchange
    private let reader: any BlobReader
    private let loop: any EventLoop
    private let readBytes: Int
    private let uploads: HubUploads
    /// The request's place in the admission limit; held until everything is sent.
    private let slot: HubWorker.Slot
    private var offset: Int64
    private let end: Int64

    /// - Parameter range: A part of the blob.
    init(
        _ exchange: HTTPExchange, _ reader: any BlobReader, _ range: Range<Int64>, _ uploads: HubUploads, holding slot: HubWorker.Slot,
        on loop: any EventLoop
    ) {
        self.exchange = exchange
        self.reader = reader
        (offset, end) = (range.lowerBound, range.upperBound)
        self.uploads = uploads
        readBytes = uploads.storage.traits.readBytes
        self.slot = slot
        self.loop = loop
    }

    func begin(_ response: HubResponse) {
        exchange.begin(response, length: Int(end - offset))
        loop.execute { self.next() }
    }

    private func next() {
        guard exchange.isOpen else { return exchange.abort() }
        guard offset < end else { return exchange.end() }
        let bytes: [UInt8]
        // Only a closed connection tells the client that the body is incomplete. The operator learns that the storage returned other bytes
        // than it was given.
        do throws(BlobError) {
            bytes = try reader.read(at: offset, count: Int(min(Int64(readBytes), end - offset)))
        } catch {
            uploads.reportFailure(error)
            return exchange.abort()
        }
        guard !bytes.isEmpty else {
            uploads.reportFailure(BlobError(.damaged, doing: "send a file", detail: "it ends after \(offset) of \(reader.size) bytes"))
            return exchange.abort()
        }
        offset += Int64(bytes.count)
        exchange.write(bytes)
        exchange.whenWritable { [self] in loop.execute { self.next() } }
    }
}
