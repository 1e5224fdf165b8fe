import CSQLite
import Glibc

// The seals of the pages are explained in `Seal.h`.
extension SQLiteConnection {
    /// Reserves room for the seals in a database that has no page yet, or that VACUUM is about to rewrite.
    package func reserveSeals() {
        guard place != .memory else { return }
        // For a database that has its format already, the result is no error: VACUUM uses the request.
        _ = csqlite_reserve_seals(handle)
    }

    /// Bytes at the end of each page that SQLite does not use.
    package var reservedBytes: Int { Int(csqlite_reserved(handle)) }

    /// `true` when every page that is read from the file is compared with its seal.
    package var checksSeals: Bool { csqlite_checks_seals(handle) != 0 }
}

/// The seal at the end of a page.
package enum PageSeal {
    package static let bytes = Int(CSQLITE_SEAL_BYTES)
    /// Size of a page with a seal, bytes.
    package static let pageBytes = Int(CSQLITE_PAGE_BYTES)
    /// Largest database of an earlier version that is rewritten at an opening to get seals, bytes.
    package static let sealedAtOnce: Int64 = 8 << 20
    /// Number of pages that are asked whether a file has seals.
    package static let pagesAsked = 100

    /// Returns whether a page ends with its seal.
    ///
    /// - Parameters:
    ///   - page: All ``pageBytes`` bytes.
    ///   - number: Number of the page, from 1.
    package static func isIntact(_ page: [UInt8], number: Int) -> Bool {
        precondition(page.count == pageBytes, "a part of a page says nothing about the page")
        return csqlite_is_sealed(page, UInt32(number)) != 0
    }

    /// Returns whether any of the first pages of a file ends with its seal. One is proof enough that the file has seals, also when its
    /// header says that it has none.
    package static func isAny(in path: String) -> Bool {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        var page = [UInt8](repeating: 0, count: pageBytes)
        return (1...pagesAsked).contains { number in
            pread(file, &page, pageBytes, off_t((number - 1) * pageBytes)) == pageBytes && isIntact(page, number: number)
        }
    }
}
