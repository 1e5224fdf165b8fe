import HubServer
import Synchronization

/// The source of the server's tokens: a file that commands replace, or rows of a database that all replicas share.
enum TokenSource: Sendable {
    /// No token is required.
    case none
    case file(TokenWatch, TokenFile, report: @Sendable (String) -> Void)
    case rows(TokenMirror)

    init(_ folder: DataFolder, isOpen: Bool, report: @escaping @Sendable (String) -> Void) throws(Failure) {
        if isOpen {
            self = .none
        } else if folder.database != nil {
            self = .rows(TokenMirror())
        } else {
            let file = TokenFile(path: folder.tokens)
            self = .file(try TokenWatch(file, report: report), file, report: report)
        }
    }

    func current() -> TokenBook? {
        switch self {
        case .none: nil
        case .file(let watch, _, _): watch.current()
        case .rows(let mirror): mirror.current()
        }
    }

    /// Changes a file of tokens; `nil` for rows, which the hub itself changes within its transaction.
    var change: Hub.TokenChange? {
        guard case .file(_, let file, let report) = self else { return nil }
        return { change in
            do throws(Failure) {
                return try file.update { book throws(Failure) in
                    change(&book)
                    return book
                }
            } catch {
                report(error.text)
                return nil
            }
        }
    }
}

/// The book as the hub last read it, for checks on other threads before a request's body is read.
final class TokenMirror: Sendable {
    private let book = Mutex(TokenBook())

    func current() -> TokenBook { book.withLock { $0 } }
    func replace(_ book: TokenBook) { self.book.withLock { $0 = book } }
}
