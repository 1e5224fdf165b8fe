package import SyncCore

/// The body of `PUT /v1/links/{ifname}`: facts about a link that a dispatcher script or a modem daemon knows and the agent cannot see. It
/// replaces the earlier hint.
package struct LinkHintBody: Hashable, Sendable {
    /// `true` when the link is metered; `nil`: not stated.
    package var isMetered: Bool?
    package var isRoaming: Bool?
    /// Life of the hint, whole seconds; `nil`: the longest life of a hint that is not renewed.
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
        // Only when both are absent: a wrong type was reported already.
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
