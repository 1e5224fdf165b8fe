import ArgumentParser
import HubServer
import LocalAPI
import SyncCore
import SyncLinux

/// `agenthub devices [DEVICE]`: who is there, how far, and what waits; also beside a server that is running.
struct DevicesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List the devices: when they were here, what waits there, and how long their token lasts.",
        discussion: """
            SEQ is the highest number of a mutation that the hub has seen from the device's present database, and the highest \
            whose result is on the device's flash. WAITS is what the device said last about its backlog. TOKEN is the time until \
            the last valid token of the device ends.
            """)

    @Argument(help: "One device, with all that is known of it.") var device: DeviceID?
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let now = SystemClocks().now().wall
        let inspector = try folder.inspector()
        let known: [HubDevice]
        do throws(HubError) {
            known = try inspector.devices(device, at: now)
        } catch {
            throw Failure(error)
        }
        let tokens = Dictionary(grouping: try folder.readTokens().entries.filter { $0.use == .device }, by: \.device)
        var devices = known
        // Who has a token and was never here is worth knowing, too.
        for id in tokens.keys where (device == nil || device == id) && !devices.contains(where: { $0.id == id }) {
            devices.append(HubDevice(id: id))
        }
        devices.sort { $0.id < $1.id }
        if let device, devices.isEmpty { throw Failure(66, "\(device) is not known here") }
        let views = devices.map { DeviceView($0, TokenState(tokens[$0.id] ?? [], at: now), at: now) }
        if json { return try Say.result((device == nil ? JSON.array(views.map(\.json)) : views[0].json).json) }
        if device != nil { return try Say.result(views[0].lines.joined(separator: "\n")) }
        if views.isEmpty { return try Say.result("no device was here yet, and none has a token") }
        try Say.result(DeviceView.table(views).joined(separator: "\n"))
    }
}

/// What lets a device in.
enum TokenState: Equatable {
    /// Never had one: it shows a certificate, or the hub asks for nothing.
    case none
    case revoked
    case ended(Timestamp)
    /// `nil`: it does not end. Overdue: nine tenths of its life are over, and a device asks for the next one after eight.
    case valid(until: Timestamp?, isOverdue: Bool)

    init(_ entries: [TokenBook.Entry], at now: Timestamp) {
        let valid = entries.filter { $0.revokedAt == nil && !$0.isOver(at: now) }
        if entries.isEmpty {
            self = .none
        } else if valid.isEmpty {
            let ends = entries.filter { $0.revokedAt == nil }.compactMap(\.endsAt)
            self = ends.max().map { .ended($0) } ?? .revoked
        } else {
            let last = valid.max { ($0.endsAt ?? Timestamp(milliseconds: .max)) < ($1.endsAt ?? Timestamp(milliseconds: .max)) }
            let end = last?.endsAt
            let isOverdue = last.flatMap { last in end.map { now.duration(to: $0) * 10 < last.createdAt.duration(to: $0) } } ?? false
            self = .valid(until: end, isOverdue: isOverdue)
        }
    }

    var word: String {
        switch self {
        case .none: "none"
        case .revoked: "revoked"
        case .ended: "ended"
        case .valid: "valid"
        }
    }
}

/// One device for people and programs.
struct DeviceView {
    private let device: HubDevice
    private let token: TokenState
    private let now: Timestamp

    init(_ device: HubDevice, _ token: TokenState, at now: Timestamp) {
        self.device = device
        self.token = token
        self.now = now
    }

    private func ago(_ time: Timestamp?) -> String { time.map { PlainText.roughDuration($0.duration(to: now)) } ?? "never" }

    private var tokenText: String {
        guard case .valid(let end, _) = token else { return token.word }
        return end.map { PlainText.roughDuration(now.duration(to: $0)) } ?? "no end"
    }

    // MARK: Many

    static func table(_ views: [DeviceView]) -> [String] {
        var table = TextTable([
            .init("DEVICE", widthMin: 8), .init("SEEN", .right), .init("WAITS", .right), .init("SEQ", .right), .init("TOKEN", .right),
            .init("AGENT", dispensable: 1), .init("PLATFORM", dispensable: 2), .init("REPLICA", dispensable: 3),
        ])
        for view in views {
            let device = view.device
            table.add([
                device.id.text, view.ago(device.lastSeen), device.waiting.map { String($0) } ?? "-",
                device.replica == nil ? "-" : "\(device.maxSeq)/\(device.ackedSeq)", view.tokenText, device.agent ?? "-",
                device.platform ?? "-", device.replica.map { String($0.text.prefix(8)) } ?? "-",
            ])
        }
        return table.lines(width: 80) + views.flatMap(\.notes)
    }

    /// What an operator should do something about.
    private var notes: [String] {
        var notes: [String] = []
        if device.twins > 1 { notes.append("! \(device.id): \(device.twins) databases speak in turns: two machines use this name") }
        if case .ended = token { notes.append("! \(device.id): its token has ended -> agenthub token enrol \(device.id)") }
        if case .valid(_, isOverdue: true) = token {
            notes.append("! \(device.id): its token ends soon and was not refreshed -> agenthub token enrol \(device.id)")
        }
        return notes
    }

    private var tokenEnd: Timestamp? {
        if case .valid(let end, _) = token { end } else { nil }
    }

    // MARK: One

    var lines: [String] {
        func line(_ name: String, _ text: String) -> String { name + String(repeating: " ", count: 10 - name.count) + text }
        let counters = device.counters
        var lines = [
            line("device", device.id.text),
            line("seen", device.lastSeen.map { "\(ago($0)) ago (\($0)), first \(device.firstSeen?.description ?? "then")" } ?? "never"),
            line("agent", PlainText.safe("\(device.agent ?? "unknown") on \(device.platform ?? "unknown")")),
            line("replica", device.replica.map { "\($0), \(device.replicas) so far, \(device.returns) returns" } ?? "none"),
            line("seq", "\(device.maxSeq) seen, \(device.ackedSeq) acknowledged"),
            line(
                "waits",
                device.waiting.map { "\($0) mutations, said \(ago(device.waitingAt)) ago" } ?? "unknown: its agent does not say it"),
            line(
                "mutations",
                "\(counters.applied) applied, \(counters.duplicates) duplicates, \(counters.conflicts) conflicts, \(counters.rejected) rejected, \(counters.retried) told to retry"),
            line("token", tokenEnd.map { "valid until \($0)" } ?? (token == .valid(until: nil, isOverdue: false) ? "valid, does not end" : token.word)),
        ]
        if let reported = device.reportedAt { lines.append(line("report", "\(reported) -> agenthub diagnostics show \(device.id)")) }
        return lines + notes
    }

    var json: JSON {
        func time(_ time: Timestamp?) -> JSON { time.map { .string($0.description) } ?? .null }
        func text(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
        func number(_ number: Int64?) -> JSON { number.map { .int($0) } ?? .null }
        return [
            "id": .string(device.id.text), "first_seen": time(device.firstSeen), "last_seen": time(device.lastSeen),
            "agent": text(device.agent), "platform": text(device.platform), "replica": text(device.replica?.text),
            "replicas": .int(device.replicas), "seq_seen": .int(device.maxSeq), "seq_acked": .int(device.ackedSeq),
            "waiting": number(device.waiting), "waiting_at": time(device.waitingAt), "config": number(device.config),
            "returns": .int(device.returns), "twins": .int(device.twins), "mutations": device.counters.json,
            "token": .string(token.word), "token_ends_at": time(tokenEnd), "reported_at": time(device.reportedAt),
        ]
    }
}
