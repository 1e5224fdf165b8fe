import SyncCore
package import SyncYAML

/// Digest of a configuration file that was read without errors. It distinguishes a person's edit from a flipped bit of the medium, which
/// may leave valid YAML: `dev-1` becomes `dev-3`, and a port another port.
package struct ConfigurationSource: Hashable, Sendable {
    package var name: String
    /// SHA-256, in hexadecimal digits.
    package var digest: String
    package var stamp: FileStamp

    /// - Returns: `nil` where the file cannot be read or has no usable stamp.
    package init?(_ file: ConfigurationFile) {
        guard case .success(let bytes) = file.contents, let stamp = file.stamp else { return nil }
        self.init(name: file.name, digest: Self.digest(bytes), stamp: stamp)
    }

    init(name: String, digest: String, stamp: FileStamp) {
        self.name = name
        self.digest = digest
        self.stamp = stamp
    }

    package static func digest(_ bytes: [UInt8]) -> String {
        hexText(SHA256.hash(bytes))
    }

    /// Faults of files that were not written since, but whose content has changed all the same.
    package static func damage(of files: [ConfigurationFile], since known: [ConfigurationSource]) -> [ConfigurationError] {
        files.compactMap { file in
            guard let found = ConfigurationSource(file),
                known.contains(where: { $0.name == found.name && $0.stamp == found.stamp && $0.digest != found.digest })
            else { return nil }
            return ConfigurationError(
                file: file.name,
                problem: "its content has changed without a write since it was last read, so the disk is faulty",
                expected: "the file saved once more")
        }
    }

    // MARK: - Stored form

    /// The stored form: `{"name":…,"sha256":…,"inode":…,"size_bytes":…,"mtime_ns":…,"ctime_ns":…}`. Inodes may need all 64 bits, so they
    /// are text.
    var json: JSON {
        [
            "name": .string(name), "sha256": .string(digest), "inode": .string(String(stamp.inode)),
            "size_bytes": .int(stamp.sizeBytes), "mtime_ns": .int(stamp.modified), "ctime_ns": .int(stamp.changed),
        ]
    }

    init?(_ json: JSON) {
        guard let object = json.object, let name = object["name"]?.text, let digest = object["sha256"]?.text,
            let inode = object["inode"]?.text.flatMap({ UInt64($0) }), let size = object["size_bytes"]?.int,
            let modified = object["mtime_ns"]?.int, let changed = object["ctime_ns"]?.int
        else { return nil }
        self.init(
            name: name, digest: digest,
            stamp: FileStamp(inode: inode, sizeBytes: size, modified: modified, changed: changed))
    }
}
