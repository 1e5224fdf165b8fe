import Foundation

/// A directory that is gone when the test is over.
func withTemporaryDirectory<Value>(_ body: (String) async throws -> Value) async throws -> Value {
    let directory = "/tmp/sync-linux-\(UUID().uuidString.prefix(13))"
    try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(atPath: directory) }
    return try await body(directory)
}

/// A file with a content and a mode, made without any code that is tested.
func makeFile(_ path: String, _ content: String = "x", mode: UInt32 = 0o600) {
    _ = FileManager.default.createFile(atPath: path, contents: Data(content.utf8))
    chmod(path, mode)
}

func names(in directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
}
