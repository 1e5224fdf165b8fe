import Foundation
import Glibc

/// The files of the checkout as text. The files of the programs are read once for all tests of this target.
enum Checkout {
    struct File: Sendable {
        /// Path from the root of the checkout.
        var path: String
        var text: String
    }

    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static let sources = read("Sources")

    /// Text files below a folder, or the file itself, in the order of their paths.
    static func files(_ path: String) -> [File] {
        guard path == "Sources" || path.hasPrefix("Sources/") else { return read(path) }
        return sources.filter { $0.path == path || $0.path.hasPrefix(path + "/") || path == "Sources" }
    }

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    private static func read(_ path: String) -> [File] {
        let place = root.appendingPathComponent(path)
        var found = FileManager.default.enumerator(at: place, includingPropertiesForKeys: nil)?.allObjects as? [URL] ?? []
        if found.isEmpty { found = [place] }
        return found.sorted { $0.path < $1.path }.compactMap { file in
            // Folders and files that are no text are passed over.
            guard let text = try? String(contentsOf: file, encoding: .utf8) else { return nil }
            return File(path: String(file.path.dropFirst(root.path.count + 1)), text: text)
        }
    }
}

extension StringProtocol {
    /// Tells whether the word is in it, by bytes: much quicker than by characters, and most files and lines have none.
    func has(_ word: String) -> Bool { withCString { strstr($0, word) != nil } }
}
