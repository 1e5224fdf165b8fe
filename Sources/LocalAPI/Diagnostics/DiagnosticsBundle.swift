package import SyncCore

/// The output of `agentctl diagnose`: files about the agent for remote help. They contain no documents, record ids or secrets, and are
/// never larger than ``bytesMax`` before compression.
package struct DiagnosticsBundle: Sendable {
    package static let bytesMax = 1 << 20
    /// Largest file, bytes. A longer one is cut, with a note; lines are removed from the front.
    package static let fileBytesMax = 512 << 10

    package struct File: Hashable, Sendable {
        package var name: String
        package var bytes: [UInt8]
    }

    /// Files, the most important first.
    package private(set) var files: [File] = []
    private let redactor: Redactor
    private let folder: String
    private let time: Timestamp
    private var size = 0

    /// - Parameter device: Part of the folder's name in the archive.
    package init(device: DeviceID, at time: Timestamp, redactor: Redactor) {
        self.redactor = redactor
        self.time = time
        // An id may contain a colon, which some file systems do not allow.
        folder = "agentd-" + device.text.map { $0 == ":" ? "_" : String($0) }.joined() + "/"
    }

    package mutating func add(_ name: String, json: JSON) {
        add(name, lines: [redactor.json(json).pretty])
    }

    package mutating func add(_ name: String, text: String) {
        add(name, lines: text.split(separator: "\n", omittingEmptySubsequences: false).map { redactor.text(String($0)) })
    }

    /// Adds one JSON value a line, oldest first; without room for all, the oldest are left out.
    package mutating func add(_ name: String, lines: [JSON]) {
        add(name, lines: lines.map { redactor.json($0).json })
    }

    private mutating func add(_ name: String, lines: [String]) {
        let room = min(Self.fileBytesMax, Self.bytesMax - size)
        var kept: [String] = []
        var used = 64
        for line in lines.reversed() {
            used += line.utf8.count + 1
            guard used <= room else { break }
            kept.append(line)
        }
        if kept.count < lines.count { kept.append("# \(lines.count - kept.count) lines left out: there was no room") }
        let text = kept.reversed().joined(separator: "\n") + "\n"
        guard text.utf8.count <= room else { return }
        files.append(File(name: name, bytes: Array(text.utf8)))
        size += text.utf8.count
    }

    /// A tar file, to be compressed.
    package var archive: [UInt8] {
        var archive = TarArchive(at: time)
        for file in files { archive.add(String((folder + file.name).prefix(99)), file.bytes) }
        return archive.finished
    }
}

extension StatusDocument {
    /// The document without facts that only the site may know: records, the portal's address, addresses.
    package var withoutParticulars: StatusDocument {
        var document = self
        document.attention = attention.map { item in
            var item = item
            item.record = RecordName(item.record.entity, RecordID(trusted: "redacted"))
            item.problem = item.problem.map { Problem($0.code, status: $0.status, detail: "") }
            return item
        }
        document.connectivity.portalURL = portalMark
        document.connectivity.links = connectivity.links.map { link in
            var link = link
            link.addresses = []
            return link
        }
        // The value that was not accepted may be a secret in the wrong place.
        document.configuration.error = configuration.error.map(Self.placeAlone)
        document.configuration.trial = configuration.trial.map { _ in Redactor.mark }
        document.checklist?.worst = nil
        return document
    }

    private var portalMark: String? { connectivity.portalURL == nil ? nil : Redactor.mark }

    /// The place in a message such as `agentd.yaml:3:7: …`: file, line and column.
    package static func placeAlone(_ error: String) -> String {
        (error.split(separator: " ").first.map(String.init) ?? "") + " " + Redactor.mark
    }
}

extension DoctorFinding {
    /// The finding without text of a file: a configuration that was not accepted is quoted in it.
    package var withoutParticulars: DoctorFinding {
        var finding = self
        if id == "configuration" || id == "configuration_trial", severity != .ok { finding.detail = Redactor.mark }
        return finding
    }
}
