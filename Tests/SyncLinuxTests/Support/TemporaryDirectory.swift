import Foundation

/// A directory that is gone when the test is over.
func withTemporaryDirectory<Value>(_ body: (String) async throws -> Value) async throws -> Value {
    let directory = "/tmp/sync-linux-\(UUID().uuidString.prefix(13))"
    try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(atPath: directory) }
    return try await body(directory)
}
