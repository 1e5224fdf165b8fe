package import SyncCore

/// The body of `POST /v1/plan`: a hypothetical situation. Missing members keep their present value.
package struct PlanBody: Hashable, Sendable {
    /// The link that would carry the sync.
    package var link: LinkName?
    package var isMetered: Bool?
    package var isRoaming: Bool?
    /// Charge, percent, 0 to 100. Without ``isCharging`` the battery counts as discharging.
    package var batteryPercent: Int64?
    package var isCharging: Bool?
    /// Rest of the link's budget, bytes.
    package var budgetBytes: Int64?
    /// The hub could be reached.
    package var isOnline: Bool?

    /// Largest budget, bytes: more than any real one, and small enough for sums without overflow.
    package static let budgetBytesMax: Int64 = 1 << 50

    package init(
        link: LinkName? = nil, isMetered: Bool? = nil, isRoaming: Bool? = nil, batteryPercent: Int64? = nil,
        isCharging: Bool? = nil, budgetBytes: Int64? = nil, isOnline: Bool? = nil
    ) {
        self.link = link
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.batteryPercent = batteryPercent
        self.isCharging = isCharging
        self.budgetBytes = budgetBytes
        self.isOnline = isOnline
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> PlanBody {
        var reader = BodyReader(try BodyText.object(bytes))
        var body = PlanBody(
            isMetered: reader.bool("metered"), isRoaming: reader.bool("roaming"),
            batteryPercent: reader.integer("battery", in: 0...100), isCharging: reader.bool("charging"),
            isOnline: reader.bool("online"))
        if let name = reader.text("link", bytesMax: .max) {
            body.link = LinkName(name)
            if body.link == nil { reader.faults.refused("/link", LinkName.rule) }
        }
        body.budgetBytes = budget(&reader)
        try reader.finish()
        return body
    }

    /// Reads a size in the form of the configuration, or a whole number of bytes.
    private static func budget(_ reader: inout BodyReader) -> Int64? {
        guard let value = reader.value("budget") else { return nil }
        if value.int != nil { return reader.integer("budget", in: 0...budgetBytesMax) }
        guard let text = value.text else {
            reader.faults.wrong("/budget", "a size such as \"5MB\" or a whole number of bytes", value)
            return nil
        }
        guard let bytes = SizeText.parse(text), bytes <= budgetBytesMax else {
            reader.faults.refused("/budget", SizeText.rule + ", at most 1 PiB")
            return nil
        }
        return bytes
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("link", link?.text)
            if let isMetered { writer.member("metered", isMetered) }
            if let isRoaming { writer.member("roaming", isRoaming) }
            writer.member("battery", batteryPercent)
            if let isCharging { writer.member("charging", isCharging) }
            writer.member("budget", budgetBytes)
            if let isOnline { writer.member("online", isOnline) }
        }
        return writer.bytes
    }
}
