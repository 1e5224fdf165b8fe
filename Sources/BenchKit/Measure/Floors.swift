import CBenchFloors

/// The cost of a run of a floor or a load.
package struct Run {
    package var rows: Int
    package var nanoseconds: UInt64
    package var times: Times
    /// 0 where it was not measured.
    package var cpuNanoseconds: UInt64

    package init(rows: Int, nanoseconds: UInt64, times: Times, cpuNanoseconds: UInt64 = 0) {
        self.rows = rows
        self.nanoseconds = nanoseconds
        self.times = times
        self.cpuNanoseconds = cpuNanoseconds
    }

    /// Rows a second.
    package var rate: Double { nanoseconds > 0 ? Double(rows) * 1e9 / Double(nanoseconds) : 0 }
}

/// The floors of the enqueue figures, each in one folder of the file system that the agent writes to.
package struct Floors {
    private let folder: String
    private let withRecord: Bool

    /// - Parameter withRecord: `true` writes the row of the mirror as well.
    package init(folder: String, withRecord: Bool) {
        self.folder = folder
        self.withRecord = withRecord
    }

    /// Appends 4 KB and calls `fdatasync`, `count` times.
    package func flash(count: Int) throws -> Run {
        var times = [UInt64](repeating: 0, count: count)
        var cost = bench_cost()
        try checked("fdatasync floor") { bench_flash_floor(folder, count, &times, &cost, $0) }
        return Run(rows: count, nanoseconds: cost.nanoseconds, times: Times(times))
    }

    /// Writes one row a transaction.
    package func rows(_ count: Int) throws -> Run { try batches(count, rowsPerCommit: 1) }

    /// Writes with one thread and that many rows a transaction; the times are those of the transactions.
    ///
    /// - Parameter deletes: `true` deletes each row again in the end.
    package func batches(_ count: Int, rowsPerCommit: Int, deletes: Bool = false) throws -> Run {
        try sqlite(count, threads: 1, rowsPerCommit: rowsPerCommit, deletes: deletes)
    }

    /// Writes with many threads that hand in one row each and wait for its commit; a transaction contains all waiting rows.
    package func group(_ count: Int, threads: Int) throws -> Run {
        try sqlite(count, threads: threads, rowsPerCommit: 256)
    }

    private func sqlite(_ count: Int, threads: Int, rowsPerCommit: Int, deletes: Bool = false) throws -> Run {
        var times = [UInt64](repeating: 0, count: count)
        var cost = bench_cost()
        try folder.withCString { path in
            var plan = bench_sqlite_plan()
            plan.folder = path
            plan.rows = UInt64(count)
            plan.threads = Int32(threads)
            plan.rows_per_commit = Int32(rowsPerCommit)
            plan.with_record = withRecord ? 1 : 0
            plan.deletes = deletes ? 1 : 0
            try checked("SQLite floor") { bench_sqlite_floor(&plan, &times, &cost, $0) }
        }
        let measured = threads > 1 ? count : Int(cost.commits)
        return Run(rows: count, nanoseconds: cost.nanoseconds, times: Times(Array(times.prefix(measured))))
    }
}
