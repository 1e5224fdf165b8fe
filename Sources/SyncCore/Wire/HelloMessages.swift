/// `POST /v1/sync/hello` (PROTOCOL A2): at start, on a configuration change and every 24 hours.
package enum HelloMessages {
    package static func request(_ hello: HelloRequest) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("agent", hello.agent)
            writer.member("platform", hello.platform)
            writer.member("replica", hello.replica.text)
            writer.member("max_sent_seq", hello.maxSentSeq)
            writer.member("highest_acked_seq", hello.ackedSeq)
            writer.member("config", hello.config)
            writer.member("entities", JSON.list(hello.entities.map(\.text)))
        }
        return writer.bytes
    }

    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> HelloResponse {
        let object = try ReplyReader.object(body)
        guard let epoch = object["epoch"]?.text, !epoch.isEmpty, epoch.utf8.count <= 64 else {
            throw ReplyError("/epoch", "a string of 1 to 64 bytes")
        }
        let limits = object["limits"]?.object ?? [:]
        return HelloResponse(
            epoch: epoch, head: try ReplyReader.version(object["head"], "/head"), deviceSeq: object["device_seq"]?.int ?? 0,
            capabilities: try ReplyReader.texts(object["capabilities"], "/capabilities"),
            pushMutations: limits["push_mutations"]?.int.map { Int(clamping: $0) },
            pushBytes: limits["push_bytes"]?.int.map { Int(clamping: $0) })
    }
}

package struct HelloRequest: Hashable, Sendable {
    package var agent: String
    package var platform: String
    package var replica: ReplicaID
    package var maxSentSeq: Int64
    package var ackedSeq: Int64
    package var config: Int64?
    package var entities: [EntityName]

    package init(
        agent: String, platform: String, replica: ReplicaID, maxSentSeq: Int64, ackedSeq: Int64, config: Int64?,
        entities: [EntityName]
    ) {
        self.agent = agent
        self.platform = platform
        self.replica = replica
        self.maxSentSeq = maxSentSeq
        self.ackedSeq = ackedSeq
        self.config = config
        self.entities = entities
    }
}

package struct HelloResponse: Hashable, Sendable {
    package var epoch: String
    package var head: Int64
    package var deviceSeq: Int64
    package var capabilities: [String]
    /// The hub's limits of a push; `nil` means ours hold.
    package var pushMutations: Int?
    package var pushBytes: Int?

    package init(
        epoch: String, head: Int64, deviceSeq: Int64, capabilities: [String], pushMutations: Int?, pushBytes: Int?
    ) {
        self.epoch = epoch
        self.head = head
        self.deviceSeq = deviceSeq
        self.capabilities = capabilities
        self.pushMutations = pushMutations
        self.pushBytes = pushBytes
    }
}
