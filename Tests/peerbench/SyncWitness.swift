import BenchKit
import CBenchFloors
import FoundationEssentials
import Glibc

/// The value of an acknowledgement: whether the data was synced to the disk before it was sent, as the kernel saw it (strace).
///
/// There is one producer with one message at a time. For each answer on a socket, the trace must show an fsync, fdatasync or the like that
/// was completed since the answer before. A program that answers first shows none; one that syncs occasionally shows some.
struct SyncWitness {
    var syncs = 0
    var answers = 0
    /// Number of answers with a sync between them and the answer before.
    var covered = 0

    /// - Returns: `nil` without strace, or where processes may not be traced.
    static func watch(_ pid: pid_t, in folder: String, place: RunningPeer.Place, _ load: () throws -> Void) throws -> SyncWitness? {
        let here = RunningPeer.Place(root: "/")
        guard let program = here.program("strace") ?? place.program("strace") else { return nil }
        let trace = "\(folder)/trace", log = "\(folder)/trace.log"
        let calls = "trace=fsync,fdatasync,sync_file_range,syncfs,msync,write,writev,sendto,sendmsg"
        let child = try start(
            [program, "-f", "-y", "-o", trace, "-e", calls, "-p", String(pid)],
            environment: here.program("strace") == nil ? place.environment : [], log: log)
        var isAttached = false
        for _ in 0..<200 where !isAttached {
            isAttached = tail(of: log).contains("attached")
            _ = poll(nil, 0, 20)
        }
        do {
            if isAttached { try load() }
        } catch {
            _ = bench_stop(child, SIGINT, 5_000)
            throw error
        }
        _ = bench_stop(child, SIGINT, 5_000)
        guard isAttached, let bytes = FileManager.default.contents(atPath: trace) else { return nil }
        return SyncWitness(trace: String(decoding: bytes, as: UTF8.self))
    }

    /// Reads lines such as `4711 fdatasync(9</x/agent.db-wal>) = 0`, `4711 fsync(9</x> <unfinished ...>` and `<... fsync resumed>`.
    init(trace: String) {
        var isSynced = false
        for line in trace.split(separator: "\n") {
            let call = line.drop { $0 != " " }.drop { $0 == " " }
            let isSync = ["fsync(", "fdatasync(", "sync_file_range(", "syncfs(", "msync("].contains { call.hasPrefix($0) }
            if (isSync && !call.contains("<unfinished"))
                || (call.hasPrefix("<... ") && call.contains("sync") && call.contains("resumed"))
            {
                syncs += 1
                isSynced = true
            } else if ["write(", "writev(", "sendto(", "sendmsg("].contains(where: { call.hasPrefix($0) }),
                SyncWitness.isSocket(call)
            {
                answers += 1
                if isSynced { covered += 1 }
                isSynced = false
            }
        }
    }

    /// Returns whether the first argument is the descriptor of a socket: `12<socket:[4711]>`, `12<TCP:[…]>`, `12<UNIX-STREAM:[…]>`.
    private static func isSocket(_ call: Substring) -> Bool {
        guard let open = call.firstIndex(of: "<"), let close = call[open...].firstIndex(of: ">") else { return false }
        let what = call[open...close]
        return what.hasPrefix("<socket:") || what.hasPrefix("<TCP") || what.hasPrefix("<UNIX")
    }
}
