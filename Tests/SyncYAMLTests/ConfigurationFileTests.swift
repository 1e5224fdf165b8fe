import Foundation
import SyncYAML
import Testing

struct ConfigurationFileTests {
    @Test("A path that is no readable file gives one clear line, and nothing waits")
    func notAFile() throws {
        try withFolder { folder in
            #expect(message(folder + "/none.yaml") == folder + "/none.yaml: no such file")
            #expect(message(folder) == folder + ": a directory, expected a file")
            #expect(message("/dev/null") == "/dev/null: a device, expected a file")
            #expect(mkfifo(folder + "/fifo", 0o600) == 0)
            #expect(message(folder + "/fifo") == folder + "/fifo: a FIFO, expected a file")
            #expect(symlink(folder + "/loop", folder + "/loop") == 0)
            #expect(message(folder + "/loop") == folder + "/loop: too many symbolic links")
            try write("a: 1\n", folder + "/file")
            #expect(message(folder + "/file/x") == folder + "/file/x: a part of the path is not a directory")
            #expect(message(folder + "/a\u{0}b") != nil)
            #expect(message(folder + "/line\nbreak") == folder + "/line\\nbreak: no such file")
        }
    }

    @Test("A file is read whole, and one byte more than allowed is read so that it can be refused")
    func contents() throws {
        try withFolder { folder in
            try write("a: 1\n", folder + "/small")
            #expect(symlink(folder + "/small", folder + "/link") == 0)
            #expect(bytes(folder + "/link") == Array("a: 1\n".utf8))
            try write("", folder + "/empty")
            #expect(bytes(folder + "/empty") == [])
            try write(String(repeating: "#", count: 3_000_000), folder + "/large")
            #expect(bytes(folder + "/large")?.count == YAMLDocument.maxBytes + 1)
        }
    }

    @Test("A folder gives its *.yaml in the order of their bytes, without hidden ones, and a broken entry as an error")
    func folders() throws {
        try withFolder { folder in
            for name in ["b.yaml", "10.yaml", "9.yaml", "B.yaml", ".hidden.yaml", "README", "c.yaml.dpkg-old", "c.yml"] {
                try write("# \(name)\n", folder + "/" + name)
            }
            try FileManager.default.createDirectory(atPath: folder + "/d.yaml", withIntermediateDirectories: false)
            let files = ConfigurationFile.readAll(in: folder)
            #expect(files.map(\.name) == ["10.yaml", "9.yaml", "B.yaml", "b.yaml", "d.yaml"].map { folder + "/" + $0 })
            #expect(files.last?.error == folder + "/d.yaml: a directory, expected a file")
            #expect(ConfigurationFile.readAll(in: folder + "/none").isEmpty)
            #expect(
                ConfigurationFile.readAll(in: folder + "/README").map(\.error)
                    == [folder + "/README: a part of the path is not a directory"])
        }
    }

    private func message(_ path: String) -> String? { ConfigurationFile.read(path).error }

    private func bytes(_ path: String) -> [UInt8]? {
        if case .success(let bytes) = ConfigurationFile.read(path).contents { bytes } else { nil }
    }

    private func write(_ text: String, _ path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }
}

extension ConfigurationFile {
    var error: String? {
        if case .failure(let error) = contents { error.description } else { nil }
    }
}

func withFolder(_ body: (String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("yaml-" + UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder.path)
}
