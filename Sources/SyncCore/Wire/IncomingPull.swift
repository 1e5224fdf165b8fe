extension PullMessages {
    /// Most streams of one pull; a configuration has tens of entities.
    package static let streamsMax = 256

    /// Reads the body of a pull. A `limit` or `max_bytes` above the hub's own is lowered to it.
    ///
    /// - Throws: `malformed`; the pull is then not answered.
    package static func readRequest(_ body: [UInt8]) throws(Problem) -> PullRequest {
        let object = try RequestReader.object(body)
        guard let list = object["streams"]?.array, list.count <= streamsMax else {
            throw RequestReader.malformed("/streams", "an array of at most \(streamsMax) streams")
        }
        var streams: [StreamPosition] = []
        var seen: Set<EntityName> = []
        for (index, json) in list.enumerated() {
            let place = "/streams/\(index)"
            guard let stream = json.object else { throw RequestReader.malformed(place, "an object") }
            let entity = try RequestReader.name(
                stream["entity"], place + "/entity", as: EntityName.self, RequestReader.malformed)
            guard seen.insert(entity).inserted else { throw RequestReader.malformed(place + "/entity", "each entity once") }
            var cursor: String?
            if let json = RequestReader.present(stream["cursor"]) {
                guard let text = json.text else { throw RequestReader.malformed(place + "/cursor", "a string or null") }
                cursor = text
            }
            streams.append(StreamPosition(entity: entity, cursor: cursor))
        }
        let malformed = RequestReader.malformed
        let limit = try RequestReader.number(object["limit"], "/limit", in: 1...(1 << 53), malformed)
        let bytes = try RequestReader.number(object["max_bytes"], "/max_bytes", in: 1...(1 << 53), malformed)
        let sent = try RequestReader.number(object["max_sent_seq"], "/max_sent_seq", in: RequestReader.sequence, malformed)
        var request = PullRequest(
            streams: streams, limit: Int(min(limit ?? Int64(Limits.pullRecords), Int64(Limits.pullRecordsMax))),
            maxBytes: Int(min(bytes ?? Int64(Limits.pullBytes), Int64(Limits.hubRequestBytes))), maxSentSeq: sent ?? 0,
            namesUnreadable: object["unreadable"]?.text == UnreadableRecords.named)
        request.namesEntities = object["entities"]?.text == EntityList.named
        return request
    }

    /// Reads the form that a person can type: `GET /v1/sync/pull?entity=audits&cursor=…&limit=100`. A missing or empty cursor starts at the
    /// beginning.
    package static func readQuery(_ query: HubQuery) throws(Problem) -> PullRequest {
        PullRequest(
            streams: [StreamPosition(entity: try query.entity(), cursor: query["cursor"].flatMap { $0.isEmpty ? nil : $0 })],
            limit: try query.limit(), maxBytes: try query.maxBytes(), maxSentSeq: 0)
    }
}

/// The decoded query of a request target.
package struct HubQuery: Hashable, Sendable {
    private var fields: [HTTPHeaders.Field] = []

    package init() {}

    package mutating func append(_ name: String, _ value: String) {
        fields.append(HTTPHeaders.Field(name: name, value: value))
    }

    /// The first value of that name; unlike header names, these are compared exactly.
    package subscript(name: String) -> String? {
        fields.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }

    package func entity() throws(Problem) -> EntityName {
        guard let entity = self["entity"].flatMap({ EntityName($0) }) else {
            throw HubQuery.malformed("entity", "the name of an entity")
        }
        return entity
    }

    /// 1 to ``Limits/pullRecordsMax``; a larger number is lowered to that.
    package func limit() throws(Problem) -> Int {
        guard let text = self["limit"], !text.isEmpty else { return Limits.pullRecords }
        guard let limit = HubHeaders.number(text), limit > 0 else { throw HubQuery.malformed("limit", "a number from 1") }
        return Int(min(limit, Int64(Limits.pullRecordsMax)))
    }

    /// A larger number than ``Limits/pullBytes`` is lowered to that.
    package func maxBytes() throws(Problem) -> Int {
        guard let text = self["max_bytes"], !text.isEmpty else { return Limits.pullBytes }
        guard let bytes = HubHeaders.number(text), bytes > 0 else { throw HubQuery.malformed("max_bytes", "a number from 1") }
        return Int(min(bytes, Int64(Limits.pullBytes)))
    }

    static func malformed(_ name: String, _ expected: String) -> Problem {
        Problem("malformed", status: 400, detail: "query: expected \(expected) as \(name)")
    }
}
