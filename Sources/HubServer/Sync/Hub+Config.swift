package import SyncCore

/// The configuration that the hub gives to agents: `GET /v1/config` (PROTOCOL A12).
package struct HubConfiguration: Sendable, Hashable {
    /// Changes with the content. It is derived from the content, so a hub that was restored or moved gives the same one.
    package let version: Int64
    package let body: [UInt8]

    /// - Parameter settings: The keys of an agent's configuration that it must adopt, such as `entities`.
    package init(_ settings: JSONObject) {
        let digest = SHA256.hash(settings.json.utf8.map { $0 })
        // 48 bits: below 2^53, and unlikely to collide.
        version = digest.prefix(6).reduce(0) { $0 << 8 | Int64($1) }
        var object: JSONObject = ["version": .int(version)]
        for member in settings.members { object[member.name.text] = member.value }
        body = JSON.object(object).bytes
    }

    var etag: String { "\"\(version)\"" }
}

extension Hub {
    func config(_ request: HubRequest) -> HubResponse {
        // A hub without a configuration answers with version 0, which no content has.
        guard let config = settings.config else { return HubResponse(json: JSON.object(["version": 0]).bytes) }
        let known = (request.headers["If-None-Match"] ?? "").split(separator: ",").map { $0.filter { $0 != " " } }
        guard !known.contains(config.etag), !known.contains("*") else {
            return HubResponse(status: 304, headers: ["ETag": config.etag])
        }
        var response = HubResponse(json: config.body)
        response.headers["ETag"] = config.etag
        return response
    }
}
