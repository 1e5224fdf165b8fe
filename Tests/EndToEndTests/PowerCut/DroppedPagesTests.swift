import Foundation
import Testing

extension EndToEnd {
    /// The tool behind `POWERCUT_FAULT=sync:N:5:dropped`, on a program that is wrong on purpose. The sweeps over agent and hub
    /// (`DiskErrorTests`, `SyncErrorTests`) would notice nothing if it took nothing away.
    @Suite("A sync that fails once")
    struct DroppedPagesTests {
        /// Writes, takes the second sync for an answer to the first, and reads what it believes to be on the medium.
        private static let careless = """
            import os, sys
            f = os.open(sys.argv[1], os.O_RDWR)
            os.pwrite(f, b"NEW", 0)
            os.pwrite(f, b"tail", 11)
            try:
                os.fsync(f)
            except OSError as error:
                print(error.errno)
                os.fsync(f)
            os.pwrite(f, b"later", 6)
            os.fsync(f)
            print(os.pread(f, 100, 0).decode())
            """

        @Test(
            "The failed content is gone for every reader, later syncs succeed, and only what is written anew stays",
            arguments: [
                ("none", "NEW-colatertail\n"), ("sync:1:5:once", "5\nNEW-colatertail\n"), ("sync:1:5:dropped", "5\nold-colater\0\0\0\0\n"),
            ])
        func careless(_ fault: String, _ says: String) async throws {
            let folder = try NewFolder.make("/tmp/edge-drop")
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let place = "\(folder)/watched"
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
            let file = "\(place)/file"
            guard FileManager.default.createFile(atPath: file, contents: Data("old-content".utf8)) else {
                throw StandError("cannot write \(file)")
            }
            let watched = Interposer(root: place, fault: fault == "none" ? nil : fault)
            let output = try await Child.run(["/usr/bin/python3", "-c", Self.careless, file], environment: watched.environment, in: folder)
            #expect(output.status == 0 && output.text == says, "\(output.text.debugDescription) \(output.talk)")
        }
    }
}
