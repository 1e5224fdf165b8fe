import SyncCore

/// The complete state of an upload at one offset that was answered to its client. With it any replica can continue, whichever process was
/// killed.
///
/// It is the object `partial/<upload>/<offset>`: one line of JSON, then the newest bytes. S3 accepts only parts of 5 MiB and more, and
/// returns none of them before all are joined. Bytes that do not fill a part yet are therefore *pieces* in objects of this kind, and the
/// digest's state over the parts is stored here.
///
///     |<- parts, 5 MiB each ->|<- pieces of earlier checkpoints ->|<- own ->|
///     0                                                                  offset
///
/// A reader compares a piece with its entry in the checkpoint: another replica that continued the same upload may have written a piece of
/// the same name.
struct UploadCheckpoint: Equatable {
    /// Bytes of a part. Some stores require that all parts except the last have one size; none requires less than this.
    static let partBytes: Int64 = 5 << 20
    /// Number of pieces above which they are joined, so that a client of tiny requests cannot make a checkpoint long.
    static let piecesMax = 48

    struct Piece: Equatable {
        /// The offset at its end, which is the name of its object.
        var end: Int64
        var count: Int64
        var digest: BlobDigest
    }

    var offset: Int64
    /// ``SHA256/midstate`` of everything before the offset.
    var midstate: [UInt8]
    /// Id of the multipart upload, if one was begun.
    var upload: String?
    /// ETags of the parts.
    var parts: [String]
    /// The pieces that are not in parts; the last one may be the checkpoint's own.
    var pieces: [Piece]

    static let empty = UploadCheckpoint(offset: 0, midstate: SHA256().midstate, upload: nil, parts: [], pieces: [])

    var bytesInParts: Int64 { Int64(parts.count) * Self.partBytes }
    var bytesInPieces: Int64 { pieces.reduce(0) { $0 + $1.count } }

    func object(own: [UInt8]) -> [UInt8] {
        var json: JSONObject = [
            "v": 1, "offset": .int(offset), "part_bytes": .int(Self.partBytes), "midstate": .string(Base64.encode(midstate)),
            "parts": .list(parts),
            "pieces": .array(pieces.map { .array([.int($0.end), .int($0.count), .string($0.digest.hex)]) }),
        ]
        if let upload { json["upload"] = .string(upload) }
        return json.bytes + [UInt8(ascii: "\n")] + own
    }

    /// - Returns: `nil` for an incomplete checkpoint or any other object: the caller answers that the upload is damaged. A checkpoint of
    ///   the largest file, with 410 parts and 48 pieces, is far within the limits of the reader.
    init?(object: [UInt8], offset: Int64) {
        // An unreadable object is no checkpoint, as said above.
        guard let end = object.firstIndex(of: UInt8(ascii: "\n")), let json = (try? JSONReader.read(Array(object[..<end])))?.object,
            json["v"]?.int == 1, json["offset"]?.int == offset, json["part_bytes"]?.int == Self.partBytes,
            let midstate = json["midstate"]?.text.flatMap({ Base64.decode($0) }), SHA256(midstate: midstate) != nil,
            let parts = json["parts"]?.array?.compactMap(\.text), let pieces = json["pieces"]?.array
        else { return nil }
        self.offset = offset
        self.midstate = midstate
        self.upload = json["upload"]?.text
        self.parts = parts
        self.pieces = pieces.compactMap { piece in
            guard let members = piece.array, members.count == 3, let end = members[0].int, let count = members[1].int, count > 0,
                let digest = members[2].text.flatMap({ BlobDigest(hex: $0) })
            else { return nil }
            return Piece(end: end, count: count, digest: digest)
        }
        // The pieces must follow each other without a gap.
        var place = bytesInParts
        for piece in self.pieces {
            place += piece.count
            guard piece.end == place else { return nil }
        }
        guard self.pieces.count == pieces.count, place == offset, parts.isEmpty || upload != nil else { return nil }
    }

    private init(offset: Int64, midstate: [UInt8], upload: String?, parts: [String], pieces: [Piece]) {
        self.offset = offset
        self.midstate = midstate
        self.upload = upload
        self.parts = parts
        self.pieces = pieces
    }
}
