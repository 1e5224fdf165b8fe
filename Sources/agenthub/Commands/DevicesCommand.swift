import ArgumentParser
import HubServer
import SyncCore
import SyncLinux

/// `agenthub devices [DEVICE]`: lists devices, their progress and their backlog, also beside a running server.
struct DevicesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "List the devices: when they were last seen, how many changes wait there, and how long their token lasts.",
        discussion: """
            SEQ is the highest number of a mutation that the hub has seen from the device's present database, and the highest \
            whose result is on the device's flash. WAITS is the backlog that the device reported last. TOKEN is the time until \
            the last valid token of the device expires. A note marks a device that connected more than an hour after the entity settings \
            changed and does not use them, because its agent does not know one of their keys. A note also marks a device that gets no \
            records of an entity, because its agent would keep records that left its share.

            agenthub devices --silent 1d --sort waits    devices not seen for a day, the largest backlog first
            """)

    @Argument(help: "One device, with everything that the hub knows about it.") var device: DeviceID?
    @OptionGroup var folder: DataFolder
    @Option(help: "Order: name, seen (the longest silence first), waits (the largest backlog first) or agent (the oldest version first).")
    var sort: Order = .name
    @Option(help: "Only devices that were not seen for this long, such as 1d or 90m.") var silent: String?
    @Flag(help: "Only devices that reported waiting changes last.") var waiting = false
    @Option(help: "Only devices with this version of agentd.") var agent: String?
    @Flag(help: "Print JSON.") var json = false

    enum Order: String, ExpressibleByArgument, CaseIterable {
        case name, seen, waits, agent
    }

    func validate() throws {
        if let silent, DurationText.parse(silent) == nil {
            throw ValidationError("--silent: expected a duration such as 90m or 1d, found '\(silent)'.")
        }
    }

    func run() throws {
        let now = SystemClocks().now().wall
        let inspector = try folder.inspector()
        var devices: [HubDevice]
        do throws(HubError) {
            devices = try inspector.devices(device, at: now)
        } catch {
            throw Failure(error)
        }
        let book = try folder.readTokens()
        let tokens = Dictionary(grouping: book.entries.filter { $0.use == .device }, by: \.device)
        // A device with a token that has never connected is listed, too.
        for id in tokens.keys where (device == nil || device == id) && !devices.contains(where: { $0.id == id }) {
            devices.append(HubDevice(id: id))
        }
        let known = devices.count
        devices = chosen(devices, now)
        if let device, devices.isEmpty { throw Failure(66, "this hub does not know \(device). To list the devices: agenthub devices") }
        let offer = try SettingsOffer(inspector)
        let views = devices.map { DeviceView($0, TokenState(tokens[$0.id] ?? [], at: now), offer, at: now) }
        if json { return try Say.result((device == nil ? JSON.array(views.map(\.json)) : views[0].json).json) }
        if device != nil { return try Say.result(views[0].lines.joined(separator: "\n")) }
        let offers = book.entries.filter { $0.use == .enrolment && $0.revokedAt == nil && !$0.isOver(at: now) }
        guard let width = LostCommand.terminalWidth else {
            // For a script or a log: complete lines on standard output, notes on standard error.
            for view in views { try Say.result(view.line) }
            for note in views.flatMap(\.notes) + DeviceView.summary(views, known: known, offers, at: now) { Say.error(note) }
            return
        }
        let table = views.isEmpty ? [] : DeviceView.table(views, width: width)
        try Say.result((table + DeviceView.summary(views, known: known, offers, at: now)).joined(separator: "\n"))
    }

    private func chosen(_ devices: [HubDevice], _ now: Timestamp) -> [HubDevice] {
        let silence = silent.flatMap { DurationText.parse($0) }
        let chosen = devices.filter { device in
            if let silence, let seen = device.lastSeen, seen.duration(to: now) < silence { return false }
            if waiting, (device.waiting ?? 0) == 0 { return false }
            if let agent, device.agent != agent { return false }
            return true
        }.sorted { $0.id < $1.id }
        // Devices with equal keys stay in the order of their names.
        func key(_ device: HubDevice) -> Int64 {
            switch sort {
            case .name, .agent: 0
            case .seen: device.lastSeen?.milliseconds ?? .min
            case .waits: -(device.waiting ?? -1)
            }
        }
        return chosen.enumerated().sorted { left, right in
            if sort == .agent, left.element.agent != right.element.agent { return (left.element.agent ?? "") < (right.element.agent ?? "") }
            let (one, other) = (key(left.element), key(right.element))
            return one == other ? left.offset < right.offset : one < other
        }.map(\.element)
    }
}

extension HubCounters {
    /// The numbers of mutations by verdict, in one line.
    var words: String {
        "\(applied) applied, \(PlainText.count(duplicates, "duplicate")), \(PlainText.count(conflicts, "conflict")), \(rejected) rejected, "
            + "\(retried) told to retry"
    }
}

/// One device for people and programs.
struct DeviceView {
    private let device: HubDevice
    private let token: TokenState
    private let offer: SettingsOffer?
    private let now: Timestamp

    /// - Parameter offer: The settings of entities that the hub hands out; `nil`: none.
    init(_ device: HubDevice, _ token: TokenState, _ offer: SettingsOffer?, at now: Timestamp) {
        self.device = device
        self.token = token
        self.offer = offer
        self.now = now
    }

    private func ago(_ time: Timestamp?) -> String { time.map { DurationText.rough($0.duration(to: now)) } ?? "never" }

    private var tokenText: String {
        guard case .valid(let end, _) = token else { return token.word }
        return end.map { DurationText.rough(now.duration(to: $0)) } ?? "no end"
    }

    // MARK: Many

    static func table(_ views: [DeviceView], width: Int) -> [String] {
        var table = TextTable([
            .init("DEVICE", widthMin: 8), .init("SEEN", .right), .init("WAITS", .right), .init("SEQ", .right), .init("TOKEN", .right),
            .init("AGENT", dispensable: 1), .init("PLATFORM", dispensable: 2), .init("REPLICA", dispensable: 3),
        ])
        for view in views { table.add(view.cells) }
        return table.lines(width: width) + views.flatMap(\.notes)
    }

    /// One line for scripts and logs.
    var line: String { PlainText.safe(cells.joined(separator: "  ")) }

    private var cells: [String] {
        [
            device.id.text, ago(device.lastSeen), device.waiting.map { String($0) } ?? "-",
            device.replica == nil ? "-" : "\(device.maxSeq)/\(device.ackedSeq)", tokenText, device.agent ?? "-", device.platform ?? "-",
            // The last digits are random; the first are the time, which a fleet may share.
            device.replica.map { String($0.text.suffix(8)) } ?? "-",
        ]
    }

    /// The numbers of devices and their states, and the devices with an unused enrolment token.
    static func summary(_ views: [DeviceView], known: Int, _ offers: [TokenBook.Entry], at now: Timestamp) -> [String] {
        var lines: [String] = []
        if views.isEmpty {
            lines.append(known == 0 ? "no device has connected yet, and no device has a token" : "no device matches")
        } else {
            let silent = views.count { $0.device.lastSeen.map { $0.duration(to: now) >= .seconds(86_400) } ?? true }
            let waiting = views.reduce(Int64(0)) { $0.saturatingAdd($1.device.waiting ?? 0) }
            lines.append(
                "\(PlainText.count(views.count, "device")), \(PlainText.count(Int64(silent))) of them silent for a day; "
                    + "\(PlainText.count(waiting, "change waits", "changes wait")) there")
        }
        if !offers.isEmpty {
            let names = offers.sorted { $0.device < $1.device }.prefix(5).map { offer in
                offer.device.text + (offer.endsAt.map { " (for \(DurationText.rough(now.duration(to: $0))))" } ?? "")
            }
            let more = offers.count > names.count ? " and \(offers.count - names.count) more" : ""
            lines.append("enrolment tokens that no device has used yet: \(names.joined(separator: ", "))\(more)")
        }
        return lines
    }

    /// The problems that need an operator.
    var notes: [String] {
        var notes: [String] = []
        if device.twins > 1 { notes.append("! \(device.id): \(device.twins) databases take turns: two machines use this device id") }
        if case .ended = token { notes.append("! \(device.id): its token has expired -> agenthub token enrol \(device.id)") }
        if case .valid(_, isOverdue: true) = token {
            notes.append("! \(device.id): its token expires soon and was not refreshed -> agenthub token enrol \(device.id)")
        }
        if let offer, offer.isRefused(by: device) {
            notes.append("! \(device.id): does not use the hub's settings of \(offer.since) -> agentctl doctor on the device")
        }
        if let entity = device.keepingEntity {
            notes.append(
                "! \(device.id): gets no \(entity), because its agentd would keep records that have left its share "
                    + "-> update agentd on the device"
            )
        }
        return notes
    }

    private var tokenEnd: Timestamp? {
        if case .valid(let end, _) = token { end } else { nil }
    }

    // MARK: One

    var lines: [String] {
        func line(_ name: String, _ text: String) -> String { name + String(repeating: " ", count: 10 - name.count) + text }
        var lines = [
            line("device", device.id.text),
            line("seen", device.lastSeen.map { "\(ago($0)) ago (\($0)), first \(device.firstSeen?.description ?? "then")" } ?? "never"),
            line("agent", PlainText.safe("\(device.agent ?? "unknown") on \(device.platform ?? "unknown")")),
            line("replica", device.replica.map { "\($0), \(device.replicas) so far, \(device.returns) returns" } ?? "none"),
            line("seq", "\(device.maxSeq) seen, \(device.ackedSeq) acknowledged"),
            line(
                "waits",
                device.waiting.map { "\(PlainText.count($0, "mutation")), reported \(ago(device.waitingAt)) ago" }
                    ?? "unknown: its agent does not report it"),
            line("mutations", device.counters.words),
            line(
                "token",
                tokenEnd.map { "valid until \($0)" }
                    ?? (token == .valid(until: nil, isOverdue: false) ? "valid, does not expire" : token.word)
            ),
        ]
        if let offer { lines.append(line("settings", offer.words(about: device))) }
        if let since = device.keepingSince, let entity = device.keepingEntity {
            lines.append(line("refused", "records of \(entity) since \(since), because its agentd is too old"))
        }
        if let reported = device.reportedAt { lines.append(line("report", "\(reported) -> agenthub diagnostics show \(device.id)")) }
        return lines + notes
    }

    var json: JSON {
        func time(_ time: Timestamp?) -> JSON { .optional(time?.description) }
        return [
            "id": .string(device.id.text), "first_seen": time(device.firstSeen), "last_seen": time(device.lastSeen),
            "agent": .optional(device.agent), "platform": .optional(device.platform), "replica": .optional(device.replica?.text),
            "replicas": .int(device.replicas), "seq_seen": .int(device.maxSeq), "seq_acked": .int(device.ackedSeq),
            "waiting": .optional(device.waiting), "waiting_at": time(device.waitingAt), "config": .optional(device.config),
            "config_current": offer.flatMap { $0.isInForce(at: device) }.map { .bool($0) } ?? .null,
            "returns": .int(device.returns), "twins": .int(device.twins), "mutations": device.counters.json,
            "token": .string(token.word), "token_ends_at": time(tokenEnd), "reported_at": time(device.reportedAt),
            "agent_too_old_since": time(device.keepingSince), "agent_too_old_for": .optional(device.keepingEntity?.text),
        ]
    }
}
