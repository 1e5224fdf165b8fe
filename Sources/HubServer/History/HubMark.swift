import SyncCore

/// The position of a database, written beside it. It reveals an older copy that was put in the database's place.
///
/// A restored hub must start a new history. Otherwise devices keep data that it no longer knows, and it gives out their commit numbers a
/// second time. Operators forget this step; the mark does not. It is only ever behind the database, never ahead, so a crash raises no false
/// alarm. It is written a second or ``commitsMax`` commits after the first commit that it lacks. A copy that is not behind the mark, or
/// that comes with a mark of its own, is detected by evidence from devices (``HubEvidence``).
package struct HubMark: Sendable, Hashable {
    package var epoch: String
    package var head: Int64
    /// The present opening (``HubLineage``); empty in a mark of an earlier version.
    package var opening: String
    /// Tells unrelated databases apart: a digest of the secret, which all copies share.
    package var hub: String

    /// Largest number of commits that a mark may lack.
    package static let commitsMax: Int64 = 100

    package init(epoch: String, head: Int64, opening: String = "", hub: String = "") {
        self.epoch = epoch
        self.head = head
        self.opening = opening
        self.hub = hub
    }

    /// - Returns: `nil` when the text is not a mark.
    package init?(reading text: String) {
        // An unreadable mark cannot warn; the devices still can.
        guard let object = (try? JSONReader.read(text))?.object, let epoch = object["epoch"]?.text, let head = object["head"]?.int
        else { return nil }
        self.init(epoch: epoch, head: head, opening: object["opening"]?.text ?? "", hub: object["hub"]?.text ?? "")
    }

    package var text: String {
        JSON.object(["epoch": .string(epoch), "head": .int(head), "opening": .string(opening), "hub": .string(hub)]).json + "\n"
    }
}

extension Hub {
    package var mark: HubMark {
        HubMark(epoch: known.epoch, head: known.head, opening: known.opening, hub: identity)
    }

    /// Returns whether this database is an older copy of the one that the mark was made of: in its epoch, or from before an epoch that the
    /// mark knows and it does not.
    package func isOlder(than mark: HubMark) -> Bool {
        if settings.ablations.contains(.markIgnored) { return false }
        if mark.opening.isEmpty { return mark.epoch == epoch && head < mark.head }
        guard mark.hub == identity else { return false }
        // A mark from an earlier history of this database: the devices of that history learn of the present one in any case.
        guard mark.epoch == epoch else { return !lineage.entries.contains { $0.epoch == mark.epoch } }
        return !lineage.includes(HubPosition(epoch: mark.epoch, opening: mark.opening, head: mark.head), head: head)
    }

    private var identity: String { hexText(Array(SHA256.hash(Array("mark".utf8) + state.secret).prefix(8))) }
}
