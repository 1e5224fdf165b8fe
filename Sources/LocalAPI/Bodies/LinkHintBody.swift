package import SyncCore

/// `PUT /v1/links/{ifname}`: what a dispatcher script or a modem daemon knows about a link and we cannot see. It replaces
/// what was said before.
package struct LinkHintBody: Hashable, Sendable {
    /// `nil`: nothing said.
    package var isMetered: Bool?
    package var isRoaming: Bool?
    /// Whole seconds; `nil`: as long as the agent keeps hints that nobody renews.
    package var life: Duration?

    package static let lifeMax = LinkHints.longestLife

    package init(isMetered: Bool? = nil, isRoaming: Bool? = nil, life: Duration? = nil) {
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.life = life
    }

    package static func read(_ bytes: [UInt8]) throws(Problem) -> LinkHintBody {
        var reader = BodyReader(try BodyText.object(bytes))
        var body = LinkHintBody(isMetered: reader.bool("metered"), isRoaming: reader.bool("roaming"))
        body.life = reader.integer("ttl", in: 1...lifeMax.components.seconds).map { .seconds($0) }
        // Only when both are absent: one of the wrong type has been complained about already.
        if reader.value("metered") == nil, reader.value("roaming") == nil {
            reader.faults.malformed("", "must say metered, roaming or both; DELETE takes a hint back")
        }
        try reader.finish()
        return body
    }

    package var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            if let isMetered { writer.member("metered", isMetered) }
            if let isRoaming { writer.member("roaming", isRoaming) }
            writer.member("ttl", life?.components.seconds)
        }
        return writer.bytes
    }
}
