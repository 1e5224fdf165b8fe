import CBenchFloors

/// What a run of a floor or a load took.
struct Run {
    var rows: Int
    var nanoseconds: UInt64
    var times: Times
    /// 0 where it was not measured.
    var cpuNanoseconds: UInt64 = 0

    /// Rows a second.
    var rate: Double { nanoseconds > 0 ? Double(rows) * 1e9 / Double(nanoseconds) : 0 }
}

/// The floors of the enqueue figures, each in one folder of the file system that the agent writes to.
struct Floors {
    let folder: String
    /// Write the row of the mirror as well.
    let withRecord: Bool

    /// `count` times: append 4 KB, `fdatasync`.
    func flash(count: Int) throws -> Run {
        var times = [UInt64](repeating: 0, count: count)
        var cost = bench_cost()
        try checked("fdatasync floor") { bench_flash_floor(folder, count, &times, &cost, $0) }
        return Run(rows: count, nanoseconds: cost.nanoseconds, times: Times(times))
    }

    /// One row a transaction.
    func rows(_ count: Int) throws -> Run { try batches(count, rowsPerCommit: 1) }

    /// One thread, that many rows a transaction; the times are those of the transactions.
    ///
    /// - Parameter deletes: Each row is deleted again in the end.
    func batches(_ count: Int, rowsPerCommit: Int, deletes: Bool = false) throws -> Run {
        try sqlite(count, threads: 1, rowsPerCommit: rowsPerCommit, deletes: deletes)
    }

    /// Many threads that hand in one row each and wait for its commit, as many of them in a transaction as are waiting.
    func group(_ count: Int, threads: Int) throws -> Run {
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
