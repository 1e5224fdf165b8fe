import Glibc
import SyncCore
import SyncSQLite

/// The pages of a database file that SQLite may refuse to read, with the pages of its log applied.
///
/// Every number from the file is checked before it is used; invalid parts read as absent. One page is in memory at a time, so the size of
/// the file does not matter.
///
/// Sources: https://www.sqlite.org/fileformat2.html, 1.2 (header), 1.8 (pointer map), 4.1 (log).
final class PageFile {
    /// Page size, bytes. Our databases are made with this size (`OpeningSequence`), so a damaged header is not asked.
    static let pageSize = 4_096

    /// Number of pages of the file, or of the log where it goes further.
    private(set) var count = 0
    /// `true` when any page comes from the log.
    var hasLog: Bool { !places.isEmpty }
    /// `true` when the pages of the file end with a seal each (`Seal.h`).
    private(set) var isSealed = false
    /// Bytes of a page that hold content.
    var usableBytes: Int { isSealed ? Self.pageSize - PageSeal.bytes : Self.pageSize }

    private let file: Int32
    private let log: Int32
    /// Offset in the log of the newest committed content, by page.
    private var places: [Int: Int64] = [:]
    /// Pages of the pointer map that were read; there is one for every 819 other pages.
    private var maps: [Int: Page] = [:]
    /// Parent by child, from all intact inner pages, for parts where the map is damaged.
    private lazy var parents = readParents()

    /// - Parameter withLog: `false` reads the file alone, because the log may belong to another database.
    init?(path: String, withLog: Bool) {
        file = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        log = withLog ? Glibc.open(path + "-wal", O_RDONLY | O_CLOEXEC) : -1
        count = Int(Self.size(file) / Int64(Self.pageSize))
        if log >= 0 { readLog() }
        isSealed = findSeals()
    }

    deinit {
        Glibc.close(file)
        if log >= 0 { Glibc.close(log) }
    }

    /// - Parameter number: Number of the page, from 1.
    /// - Returns: `nil` when there is no such page, or the medium cannot read it.
    func page(_ number: Int) -> Page? {
        guard number >= 1, number <= count else { return nil }
        if let place = places[number], let bytes = Self.read(log, at: place) { return Page(number: number, bytes: bytes, isWhole: true) }
        return filePage(number).map { bytes in
            Page(number: number, bytes: bytes, isWhole: !isSealed || PageSeal.isIntact(bytes, number: number))
        }
    }

    private func filePage(_ number: Int) -> [UInt8]? { Self.read(file, at: Int64(number - 1) * Int64(Self.pageSize)) }

    /// Returns whether the pages carry seals. One page with a correct seal is proof enough, because the header itself may be damaged.
    /// Without such a page, the header decides.
    private func findSeals() -> Bool {
        let inFile = Int(Self.size(file) / Int64(Self.pageSize))
        let found = (1...max(1, min(inFile, PageSeal.pagesAsked))).contains { number in
            filePage(number).map { PageSeal.isIntact($0, number: number) } ?? false
        }
        return found || page(1).map { Int($0.bytes[20]) == PageSeal.bytes } ?? false
    }

    // MARK: - The log

    /// Reads all frames up to the last commit whose checksums are right, as SQLite does.
    ///
    ///     log header            frame header
    ///      0  4  magic           0  4  page number
    ///      8  4  page size       4  4  pages of the database after this commit; 0: no commit
    ///     16  8  salts           8  8  salts, those of the log header
    ///     24  8  checksum       16  8  checksum of all before, these first 8 bytes and the page
    private func readLog() {
        guard let header = Self.read(log, at: 0, count: 32), header.number(at: 0) & ~1 == 0x377F_0682,
            header.number(at: 8) == UInt32(Self.pageSize)
        else { return }
        var sums = LogChecksum(isBigEndian: header.number(at: 0) & 1 == 1)
        sums.add(header[0..<24])
        guard sums.first == header.number(at: 24), sums.second == header.number(at: 28) else { return }
        var uncommitted: [Int: Int64] = [:]
        var offset: Int64 = 32
        while let frame = Self.read(log, at: offset, count: 24 + Self.pageSize) {
            guard frame[8..<16].elementsEqual(header[16..<24]) else { return }
            sums.add(frame[0..<8])
            sums.add(frame[24...])
            guard sums.first == frame.number(at: 16), sums.second == frame.number(at: 20) else { return }
            uncommitted[Int(frame.number(at: 0))] = offset + 24
            let pages = Int(frame.number(at: 4))
            if pages > 0 {
                places.merge(uncommitted) { $1 }
                uncommitted = [:]
                count = pages
            }
            offset += Int64(24 + Self.pageSize)
        }
    }

    private static func size(_ descriptor: Int32) -> Int64 {
        var facts = stat()
        return fstat(descriptor, &facts) == 0 ? Int64(facts.st_size) : 0
    }

    private static func read(_ descriptor: Int32, at offset: Int64, count: Int = pageSize) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        for _ in 0..<reads {
            let found = pread(descriptor, &bytes, count, off_t(offset))
            if found >= 0 { return found == count ? bytes : nil }
        }
        return nil
    }

    /// Number of attempts for a read that the medium fails. After that, the content is treated as lost.
    private static let reads = 3

    /// Returns whether the medium can read any page of the file. A disk that does not answer at the moment is no reason to give up its
    /// content.
    static func canBeRead(_ path: String) -> Bool {
        let file = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return errno == ENOENT }
        defer { Glibc.close(file) }
        let pages = Int(size(file) / Int64(pageSize))
        return pages == 0 || (0..<min(pages, PageSeal.pagesAsked)).contains { read(file, at: Int64($0 * pageSize)) != nil }
    }
}

/// The two running checksums of the log, over pairs of four-byte words.
private struct LogChecksum {
    let isBigEndian: Bool
    private(set) var first: UInt32 = 0
    private(set) var second: UInt32 = 0

    init(isBigEndian: Bool) {
        self.isBigEndian = isBigEndian
    }

    mutating func add(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { bytes in
            for offset in stride(from: 0, to: bytes.count - 7, by: 8) {
                let words = (0..<2).map { index in
                    let word = bytes.loadUnaligned(fromByteOffset: offset + 4 * index, as: UInt32.self)
                    return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
                }
                first = first &+ words[0] &+ second
                second = second &+ words[1] &+ first
            }
        }
    }
}

extension Array where Element == UInt8 {
    /// The big-endian number of four bytes; 0 past the end.
    func number(at offset: Int) -> UInt32 {
        guard offset >= 0, offset + 4 <= count else { return 0 }
        return self[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) }
    }
}

// MARK: - Role of a page

extension PageFile {
    enum Role: Equatable {
        /// A page of the tree with this root.
        case tree(root: Int)
        /// A free page, an overflow page, or the map itself: it has no rows of its own.
        case other
        /// The map has no entry, or contradicts itself.
        case unknown
    }

    /// The use of a page. The pointer map names the parent of each page, so that a page finds its table although pages between them are
    /// lost.
    ///
    /// Each entry has 5 bytes: the kind (1 root, 2 free, 3 and 4 overflow, 5 inner page or leaf) and the parent.
    ///
    /// Where the map is lost, the remaining inner pages hold the same facts.
    func role(of number: Int) -> Role {
        var current = number
        // Our trees are never deeper than this.
        for _ in 0..<20 {
            if current == 1 { return .tree(root: 1) }
            let span = usableBytes / 5 + 1
            let map = (current - 2) / span * span + 2
            if map == current { return .other }
            guard let page = maps[map] ?? page(map) else { return .unknown }
            maps[map] = page
            guard page.isWhole else {
                guard let parent = parents[current] else { return current == number ? .unknown : .tree(root: current) }
                current = parent
                continue
            }
            let offset = 5 * (current - map - 1)
            guard offset >= 0, offset + 5 <= page.bytes.count else { return .unknown }
            switch page.bytes[offset] {
            case 1: return .tree(root: current)
            case 2, 3, 4: return .other
            case 5:
                let parent = Int(page.bytes.number(at: offset + 1))
                guard parent >= 1, parent <= count, parent != current else { return .unknown }
                current = parent
            default: return .unknown
            }
        }
        return .unknown
    }

    private func readParents() -> [Int: Int] {
        var parents: [Int: Int] = [:]
        for number in 1...max(1, count) {
            guard let page = page(number), page.isWhole else { continue }
            for child in page.children { parents[child] = number }
        }
        return parents
    }
}
