/// `POST /v1/sync/known`, both directions (PROTOCOL A6): asks which of these keys the hub does not know. It is sent only after the hub's
/// history changed, so that mutations that it had accepted before a restore are sent again.
package enum KnownMessages {
    package static let keysMax = 1_000

    package static func request(_ keys: [MutationKey]) -> [UInt8] {
        JSON.object(["keys": .list(keys.map(\.text))]).bytes
    }

    package static func readRequest(_ body: [UInt8]) throws(Problem) -> [MutationKey] {
        let object = try RequestReader.object(body)
        guard let list = object["keys"]?.array else { throw RequestReader.malformed("/keys", "an array") }
        guard list.count <= keysMax else {
            throw Problem("too-large", status: 413, detail: "a request may name at most \(keysMax) keys")
        }
        var keys: [MutationKey] = []
        for (index, json) in list.enumerated() {
            keys.append(try RequestReader.name(json, "/keys/\(index)", as: MutationKey.self, RequestReader.malformed))
        }
        return keys
    }

    package static func response(unknown: [MutationKey]) -> [UInt8] {
        JSON.object(["unknown": .list(unknown.map(\.text))]).bytes
    }

    /// - Returns: The unknown keys in the order of the answer.
    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> [MutationKey] {
        let object = try ReplyReader.object(body)
        guard let list = object["unknown"]?.array else { throw ReplyError("/unknown", "an array") }
        var keys: [MutationKey] = []
        for (index, json) in list.enumerated() {
            guard let key = json.text.flatMap({ MutationKey($0) }) else { throw ReplyError("/unknown/\(index)", "a key") }
            keys.append(key)
        }
        return keys
    }
}
