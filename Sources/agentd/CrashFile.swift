import Agent
import Glibc
import SyncLinux

/// `starts` in the state folder. A fault of this file does not prevent serving, so nothing throws.
struct CrashFile {
    private let path: String
    private let files = DurableFiles(calls: LinuxFileCalls())

    init(stateFolder: String) {
        path = stateFolder + "/starts"
    }

    func read() -> CrashCount? {
        // A missing or torn file counts no crashes: then safe mode comes some crashes later, and nothing else is lost.
        (try? files.read(path, maxBytes: 256)).flatMap { CrashCount(text: String(decoding: $0, as: UTF8.self)) }
    }

    func write(_ count: CrashCount) {
        // A full disk must not prevent the start; the count continues from the last written one.
        try? files.write(Array(count.text.utf8), to: path)
    }

    func remove() {
        unlink(path)
    }
}
