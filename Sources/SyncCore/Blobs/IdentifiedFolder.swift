/// Names one folder of files, so that another one at the same path is not taken for it: an empty mount point, or a folder of one replica.
package struct FolderID: Hashable, Sendable, CustomStringConvertible {
    /// 16 hexadecimal digits, in lower case.
    package let text: String

    /// - Returns: `nil` when the text has another form.
    package init?(_ text: String) {
        guard text.utf8.count == 16, text.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }) else { return nil }
        self.text = text
    }

    package init(using random: inout SeededRandom) {
        text = withUnsafeBytes(of: random.next().bigEndian) { hexText(Array($0)) }
    }

    package var description: String { text }
}

/// A storage of files that can have an id. Calls block, as all of ``BlobStorage``.
package protocol IdentifiedFolder: BlobStorage {
    /// The id of the folder that is at the path now; `nil`: it has none, or there is no folder.
    ///
    /// - Throws: `.io` when it cannot be read, and `.damaged` when it is no id.
    func folderID() throws(BlobError) -> FolderID?
    /// Gives the folder an id, which survives a power cut.
    ///
    /// - Parameter replacing: `false`: an id that another process has given it meanwhile stays.
    func setFolderID(_ id: FolderID, replacing: Bool) throws(BlobError)
}
