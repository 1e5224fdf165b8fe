import Foundation
import SyncLinux
import Testing

@Suite("Files that came with the program")
struct InstalledFileTests {
    @Test("A file is read whole; what is no file, is not there or is too large is none")
    func read() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/reference"
            try "a: b\n".write(toFile: path, atomically: false, encoding: .utf8)
            #expect(InstalledFile.read(at: path) == Array("a: b\n".utf8))
            #expect(InstalledFile.read(at: directory) == nil)
            #expect(InstalledFile.read(at: directory + "/nothing") == nil)
            #expect(mkfifo(directory + "/pipe", 0o600) == 0)
            #expect(InstalledFile.read(at: directory + "/pipe") == nil)
            #expect(FileManager.default.createFile(atPath: directory + "/large", contents: Data(count: (1 << 20) + 1)))
            #expect(InstalledFile.read(at: directory + "/large") == nil)
        }
    }

    @Test("A path is looked for beside the folder of the program")
    func beside() {
        // The tests' own program is no package: there is nothing beside it.
        #expect(InstalledFile.read("share/doc/edge-sync-agent/nothing") == nil)
    }
}
