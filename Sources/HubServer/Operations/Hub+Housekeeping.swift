package import SyncCore

/// Times after which the hub drops temporary data. Answers to mutations are kept for good.
package struct HubRetention: Sendable, Hashable {
    /// For deletions. A device that was away for longer gets a full listing instead of a feed.
    package var deletions: Duration = .seconds(90 * 86_400)
    /// For the text of a rejection, for a device that asks again.
    package var rejections: Duration = .seconds(30 * 86_400)
    /// For the devices' reports after an outage.
    package var reports: Duration = .seconds(14 * 86_400)

    package init() {}
}

/// Data that housekeeping has dropped since the start.
struct HubHousekeeping: Sendable, Hashable {
    var at: Timestamp?
    var deletions: Int64 = 0
    var rejections: Int64 = 0
    var reports: Int64 = 0
    var uploads: Int64 = 0
    /// Bytes that were returned to the file system.
    var bytes: Int64 = 0
}

extension Hub {
    /// Pages of 4 KiB that one ``shrink()`` returns: some milliseconds of writing.
    static let shrinkPages = 1_000

    /// Forgets deletions made before this time. Cursors that have not seen them are refused from now on.
    ///
    /// - Returns: The number of forgotten deletions.
    @discardableResult
    package func collectTombstones(before: Timestamp) throws(HubError) -> Int {
        try transact { () throws(DatabaseError) in
            try store.collectTombstones(before: before, raisingHorizon: !settings.ablations.contains(.horizonIgnored))
        }
    }

    /// Drops everything that has expired; once a day is enough.
    package func housekeep(at now: Timestamp) throws(HubError) {
        let retention = settings.retention
        housekept.deletions += Int64(try collectTombstones(before: now.advanced(by: .zero - retention.deletions)))
        let (rejections, reports) = try transact { () throws(DatabaseError) in
            let rejections = try store.prunePayloads(before: now.advanced(by: .zero - retention.rejections))
            return (rejections, try store.pruneReports(before: now.advanced(by: .zero - retention.reports)))
        }
        housekept.rejections += Int64(rejections)
        housekept.reports += Int64(reports)
        try tidyFiles(at: now)
        housekept.at = now
    }

    /// Makes the database's file smaller by some of its unused pages. A database server does this itself.
    ///
    /// - Returns: `true` when there is no more to return.
    package func shrink() throws(HubError) -> Bool {
        guard !isDown, let database = store.database as? SQLiteDatabase else { return true }
        do throws(DatabaseError) {
            let bytes = try database.shrink(pages: Hub.shrinkPages)
            housekept.bytes += bytes
            return bytes == 0
        } catch {
            abandon(error)
            throw HubError(error)
        }
    }
}

extension HubStore {
    func pruneReports(before: Timestamp) throws(DatabaseError) -> Int {
        try database.run("DELETE FROM diagnostics WHERE at_ms < ?", .int(before.milliseconds))
        return try database.changes()
    }
}
