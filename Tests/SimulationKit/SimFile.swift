import StorageKit
import SyncCore
import SyncStore

/// The files of the simulated world: a few texts, so that two scopes often have the same one.
enum SimFile {
    /// The field of an order that shows a file.
    static let field = "f"
    static let type = "text/plain"

    static let contents: [[UInt8]] = (0..<5).map { Array(String(repeating: "file \($0) of the world; ", count: 1 + $0 % 3).utf8) }
    static let digests = contents.map { digest(of: $0) }

    /// No device ever has this one.
    static let unknown = digest(of: Array("no file".utf8))

    static func digest(of bytes: [UInt8]) -> BlobDigest { MemoryBlobs.digest(of: bytes) }

    static func bytes(of digest: BlobDigest) -> [UInt8]? { digests.firstIndex(of: digest).map { contents[$0] } }

    /// What a document says of its file, as plainly as PROTOCOL H2 says it.
    struct Shown: Hashable {
        var digest: String
        var isUploaded: Bool
    }

    static func shown(in document: JSONObject?) -> Shown? {
        guard let object = document?[field]?.object, let digest = object["$blob"]?.text else { return nil }
        return Shown(digest: digest, isUploaded: object["state"]?.text == "uploaded")
    }

    /// A placeholder that is written without the file: by an app that has seen the digest, or by the office.
    static func written(_ number: Int, isUploaded: Bool) -> JSON {
        [
            "$blob": .string(digests[number].description), "size": .int(Int64(contents[number].count)), "type": .string(type),
            "state": .string(isUploaded ? "uploaded" : "pending"),
        ]
    }
}

/// The files on the disk of one agent, and what its process knows of their way.
struct FileShelf {
    /// Whole files, and parts of such that come down. The disk keeps them when the database goes back.
    var whole: [BlobDigest: [UInt8]] = [:]
    var parts: [BlobDigest: [UInt8]] = [:]

    // Of the running process.
    var uploads: [BlobID: UploadMachine] = [:]
    /// ``UploadJob/named`` of the files of these uploads when they began.
    var named: [BlobID: Int64] = [:]
    var downloads: [BlobID: DownloadMachine] = [:]
    /// A request is on its way.
    var isBusy = false
    /// Files that wait after an answer that was none.
    var held: [BlobID: Instant] = [:]

    mutating func endProcess() { (uploads, named, downloads, isBusy, held) = ([:], [:], [:], false, [:]) }
}

/// A request for a file on its way, or a copy of it.
struct FileFlight {
    enum Purpose {
        case upload(BlobID, UploadMachine.Request)
        case download(BlobID, DownloadMachine.Request)
        /// A program with the credentials of the device asks for a digest that it may have learnt anywhere.
        case probe
    }

    var agent: Int
    var life: Int
    var digest: BlobDigest
    var purpose: Purpose
    var request: HTTPRequest
    /// The record that the upload names.
    var record: RecordName?
    /// Of the hub that it was sent to.
    var generation: Int
    var isCopy = false

    var bytes: [UInt8] {
        get { if case .bytes(let bytes) = request.body { bytes } else { [] } }
        set { request.body = .bytes(newValue) }
    }
}
