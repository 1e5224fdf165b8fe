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
    var events: Int64 = 0
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
        let known = housekept.deletions
        var run = HousekeepingRun(at: before, HousekeepingRun.deletions(before: before))
        while !run.isOver { try housekeep(&run) }
        return Int(housekept.deletions - known)
    }

    /// Drops everything that has expired; once a day is enough.
    package func housekeep(at now: Timestamp) throws(HubError) {
        var run = try beginHousekeeping(at: now)
        while !run.isOver { try housekeep(&run) }
    }

    /// Drops what is never much, and looks for the rest, which goes slice by slice.
    package func beginHousekeeping(at now: Timestamp) throws(HubError) -> HousekeepingRun {
        let retention = settings.retention
        let (rejections, reports, isClockBelieved) = try transact { () throws(DatabaseError) in
            let rejections = try store.prunePayloads(before: now.advanced(by: .zero - retention.rejections))
            let reports = try store.pruneReports(before: now.advanced(by: .zero - retention.reports))
            return (rejections, reports, try judgeClock(at: now))
        }
        housekept.rejections += Int64(rejections)
        housekept.reports += Int64(reports)
        try tidyFiles(at: now)
        housekept.at = now
        let deletions = HousekeepingRun.deletions(before: now.advanced(by: .zero - retention.deletions))
        return HousekeepingRun(at: now, deletions + (isClockBelieved ? try eventTasks(at: now) : []) + keyTasks)
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
