/// Enrolment and token refresh (PROTOCOL A10): how a device gets the token that it shows with every request, and the next one before that
/// one expires.
///
/// No step can lock a device out. Its present token stays valid until it shows the new one. A lost answer, or a device that dies before the
/// new token is on its disk, changes nothing, and the same request is made again.
package enum DeviceMessages {
    /// Prefix of a token that can only be exchanged for another one, once. It is never shown as a bearer token.
    package static let enrolmentPrefix = "ese_"

    package static func isEnrolment(_ token: String) -> Bool { token.hasPrefix(enrolmentPrefix) }

    /// The body of an enrolment, `{"token":"ese_…"}`.
    package static func enrolment(_ token: String) -> [UInt8] {
        JSON.object(["token": .string(token)]).bytes
    }

    package static func readEnrolment(_ body: [UInt8]) throws(Problem) -> String {
        // Any error makes the body malformed.
        guard let object = (try? JSONReader.read(body))?.object, let token = object["token"]?.text else {
            throw Problem("malformed", status: 400, detail: "expected an object with the member token")
        }
        return token
    }

    /// The body of an answer with a token, `{"device_id":"gw-17","token":"est_…","expires_at":"…"}`.
    package static func grant(_ grant: TokenGrant) -> [UInt8] {
        var object: JSONObject = ["device_id": .string(grant.device.text), "token": .string(grant.token)]
        object["expires_at"] = .optional(grant.endsAt?.description)
        return JSON.object(object).bytes
    }

    /// Reads a grant strictly where it matters: a token that could not be sent in a header is invalid.
    package static func readGrant(_ body: [UInt8]) throws(ReplyError) -> TokenGrant {
        let object = try ReplyReader.object(body)
        guard let device = object["device_id"]?.text.flatMap({ DeviceID($0) }) else { throw ReplyError("/device_id", "a device id") }
        guard let token = object["token"]?.text, isToken(token), !isEnrolment(token) else {
            throw ReplyError("/token", "a token of visible ASCII, at most 512 bytes")
        }
        return TokenGrant(device: device, token: token, endsAt: object["expires_at"]?.text.flatMap { RFC3339.timestamp($0) })
    }

    /// RFC 6750, 2.1: the token goes into a header field.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 512 && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

package struct TokenGrant: Hashable, Sendable {
    package var device: DeviceID
    package var token: String
    /// `nil`: it does not expire.
    package var endsAt: Timestamp?

    package init(device: DeviceID, token: String, endsAt: Timestamp?) {
        self.device = device
        self.token = token
        self.endsAt = endsAt
    }
}

/// The token that a device got from its hub, as it is stored beside the database, and the choice between it and the operator's token.
///
/// It is derived from the token that an operator provisioned. A newly provisioned token outranks it, so that an operator can always repair
/// a device.
package struct KeptToken: Hashable, Sendable {
    package var token: String
    package var endsAt: Timestamp?
    /// SHA-256 of the provisioned token that this one is derived from.
    package var origin: [UInt8]

    package init(_ grant: TokenGrant, from provisioned: String) {
        token = grant.token
        endsAt = grant.endsAt
        origin = SHA256.hash(Array(provisioned.utf8))
    }

    /// The operator's own token, after the hub has accepted it.
    package init(_ provisioned: String) {
        token = provisioned
        origin = SHA256.hash(Array(provisioned.utf8))
    }

    /// The token to show: the kept one while it is derived from the provisioned one, otherwise the provisioned one.
    package static func choose(provisioned: String, kept: KeptToken?) -> String {
        guard let kept, kept.belongs(to: provisioned) else { return provisioned }
        return kept.token
    }

    package func belongs(to provisioned: String) -> Bool { origin == SHA256.hash(Array(provisioned.utf8)) }

    // MARK: File

    /// - Returns: `nil` for damaged or incomplete content: then the provisioned token is shown.
    package init?(reading bytes: [UInt8]) {
        // Torn or damaged: a token is requested again with the provisioned one, and nothing is lost.
        guard let object = (try? JSONReader.read(bytes))?.object, let token = object["token"]?.text, DeviceMessages.isToken(token),
            let origin = object["origin"]?.text.flatMap(hexBytes), origin.count == 32
        else { return nil }
        self.token = token
        self.origin = origin
        endsAt = object["expires_at"]?.text.flatMap { RFC3339.timestamp($0) }
    }

    package var bytes: [UInt8] {
        var object: JSONObject = ["token": .string(token)]
        object["origin"] = .string(hexText(origin))
        object["expires_at"] = .optional(endsAt?.description)
        return JSON.object(object).bytes + [UInt8(ascii: "\n")]
    }
}
