package import SyncCore

/// The power supply of the machine, and the policy's level for it (PROTOCOL E3).
package struct PowerState: Hashable, Sendable {
    /// `mains`, `battery`, or `unknown`, which is treated as mains.
    package var source: String
    /// Charge of all batteries together, percent, 0 to 100; `nil` without a battery, or when it is not reported.
    package var percent: Int64?
    package var isDischarging: Bool
    /// ``PowerLevel``; a level of a newer agent is shown unchanged.
    package var level: String
    /// A warning about odd readings, in words.
    package var warning: String?

    package init(
        source: String, percent: Int64? = nil, isDischarging: Bool = false,
        level: String = PowerLevel.ample.rawValue, warning: String? = nil
    ) {
        self.source = source
        self.percent = percent
        self.isDischarging = isDischarging
        self.level = level
        self.warning = warning
    }

    /// `true` when the policy holds work back because of it.
    package var isLow: Bool { level == PowerLevel.low.rawValue || level == PowerLevel.exhausted.rawValue }

    func write(to writer: inout JSONWriter) {
        writer.member("source", source)
        writer.name("percent")
        if let percent { writer.int(percent) } else { writer.null() }
        writer.member("discharging", isDischarging)
        writer.member("level", level)
        writer.member("warning", warning)
    }

    init?(_ reader: AnswerReader) {
        guard let source = reader.text("source") else { return nil }
        self.init(
            source: source, percent: reader.int("percent"), isDischarging: reader.bool("discharging") ?? false,
            level: reader.text("level") ?? "unknown", warning: reader.text("warning"))
    }
}

/// Answer to `GET /v1/power`.
package struct PowerAnswer: Hashable, Sendable {
    /// One entry of `class/power_supply`.
    package struct Supply: Hashable, Sendable {
        package var name: String
        /// Type by the kernel: `Battery`, `Mains`, `USB`, …; `nil` when it cannot be read.
        package var type: String?
        /// Status by the kernel: `Charging`, `Discharging`, `Full`, …
        package var status: String?
        package var percent: Int64?
        /// The reason why it is ignored; `nil` when it counts.
        package var ignoredBecause: String?

        package init(
            name: String, type: String? = nil, status: String? = nil, percent: Int64? = nil,
            ignoredBecause: String? = nil
        ) {
            self.name = name
            self.type = type
            self.status = status
            self.percent = percent
            self.ignoredBecause = ignoredBecause
        }
    }

    package var state: PowerState
    package var supplies: [Supply]

    package init(_ state: PowerState, supplies: [Supply] = []) {
        self.state = state
        self.supplies = supplies
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                state.write(to: &writer)
                writer.elements("supplies", supplies) { writer, supply in
                    writer.object { writer in
                        writer.member("name", supply.name)
                        writer.member("type", supply.type)
                        writer.member("status", supply.status)
                        writer.member("percent", supply.percent)
                        writer.member("ignored_because", supply.ignoredBecause)
                    }
                }
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let state = PowerState(reader) else { return nil }
        self.state = state
        supplies = reader.list("supplies").compactMap { element in
            let supply = AnswerReader(element)
            guard let name = supply.text("name") else { return nil }
            return Supply(
                name: name, type: supply.text("type"), status: supply.text("status"), percent: supply.int("percent"),
                ignoredBecause: supply.text("ignored_because"))
        }
    }
}
