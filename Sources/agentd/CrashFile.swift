import Agent
import Glibc
import SyncLinux

/// `starts` in the state folder. What goes wrong with it is no reason not to serve, so nothing throws.
struct CrashFile {
    private let path: String
    private let files = DurableFiles(calls: LinuxFileCalls())

    init(stateFolder: String) {
        path = stateFolder + "/starts"
    }

    func read() -> CrashCount? {
        // Missing or torn, it counts no deaths: then safe mode comes some deaths later, and nothing else is lost.
        (try? files.read(path, maxBytes: 256)).flatMap { CrashCount(text: String(decoding: $0, as: UTF8.self)) }
    }

    func write(_ count: CrashCount) {
        // A full disk must not stop the start; the count goes on from what was written before.
        try? files.write(Array(count.text.utf8), to: path)
    }

    func remove() {
        unlink(path)
    }
}
