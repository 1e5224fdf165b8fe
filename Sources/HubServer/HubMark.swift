import SyncCore

/// How far a database has come, written down beside it: an older copy of the database that was put in its place shows by it.
///
/// A restored hub must start a new history, or devices keep what it no longer knows, and it hands out their commit numbers a
/// second time. Operators forget that; the mark does not. It is only ever behind the database, never ahead, so a crash
/// raises no false alarm.
package struct HubMark: Sendable, Hashable {
    package var epoch: String
    package var head: Int64

    package init(epoch: String, head: Int64) {
        self.epoch = epoch
        self.head = head
    }

    /// - Returns: `nil` when the text is not a mark.
    package init?(reading text: String) {
        guard let object = (try? JSONReader.read(text))?.object, let epoch = object["epoch"]?.text, let head = object["head"]?.int
        else { return nil }
        self.init(epoch: epoch, head: head)
    }

    package var text: String { JSON.object(["epoch": .string(epoch), "head": .int(head)]).json + "\n" }
}

extension Hub {
    package var mark: HubMark { HubMark(epoch: epoch, head: head) }

    /// Whether this database is an older copy of the one that the mark was made of.
    package func isOlder(than mark: HubMark) -> Bool {
        mark.epoch == epoch && head < mark.head
    }
}
