/// `POST /v1/sync/hello`, both directions (PROTOCOL A2): the capabilities of each side, exchanged at the start and once a day.
package enum HelloMessages {
    package static func request(_ hello: HelloRequest) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("agent", hello.agent)
            writer.member("platform", hello.platform)
            writer.member("replica", hello.replica?.text)
            writer.member("max_sent_seq", hello.maxSentSeq)
            writer.member("highest_acked_seq", hello.highestAckedSeq)
            writer.member("config", hello.config)
            writer.member("entities", JSON.list(hello.entities.map(\.text)))
        }
        return writer.bytes
    }

    package static func readRequest(_ body: [UInt8]) throws(Problem) -> HelloRequest {
        let object = try RequestReader.object(body)
        let malformed = RequestReader.malformed
        var hello = HelloRequest()
        for (name, path) in [("agent", \HelloRequest.agent), ("platform", \HelloRequest.platform)] {
            guard let json = RequestReader.present(object[name]) else { continue }
            guard let text = json.text, text.utf8.count <= textBytes else {
                throw malformed("/" + name, "a text of at most \(textBytes) bytes")
            }
            hello[keyPath: path] = text
        }
        if let replica = RequestReader.present(object["replica"]) {
            hello.replica = try RequestReader.name(replica, "/replica", as: ReplicaID.self, malformed)
        }
        if let device = RequestReader.present(object["device_id"]) {
            hello.device = try RequestReader.name(device, "/device_id", as: DeviceID.self, malformed)
        }
        let range = RequestReader.sequence
        hello.maxSentSeq = try RequestReader.number(object["max_sent_seq"], "/max_sent_seq", in: range, malformed)
        hello.highestAckedSeq = try RequestReader.number(object["highest_acked_seq"], "/highest_acked_seq", in: range, malformed)
        hello.config = try RequestReader.number(object["config"], "/config", in: range, malformed)
        if let entities = RequestReader.present(object["entities"]) {
            guard let list = entities.array, list.count <= PullMessages.streamsMax else {
                throw malformed("/entities", "an array of at most \(PullMessages.streamsMax) entities")
            }
            for (index, name) in list.enumerated() {
                hello.entities.append(
                    try RequestReader.name(name, "/entities/\(index)", as: EntityName.self, malformed))
            }
        }
        return hello
    }

    package static func response(_ hello: HelloResponse) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("device_id", hello.device.text)
            writer.member("epoch", hello.epoch)
            writer.member("head", hello.head)
            writer.member("time", hello.time?.description)
            writer.member("device_seq", hello.deviceSeq)
            writer.member("config", hello.config)
            writer.member("sync_versions", JSON.array(hello.versions.map { .int($0) }))
            writer.member("capabilities", JSON.list(hello.capabilities))
            writer.name("limits")
            writer.object { writer in
                writer.member("push_mutations", Int64(hello.limits.pushMutations))
                writer.member("push_bytes", Int64(hello.limits.pushBytes))
                writer.member("pull_records", Int64(hello.limits.pullRecords))
                writer.member("mutation_bytes", Int64(hello.limits.mutationBytes))
            }
            writer.member("spread_s", hello.spread.components.seconds)
            hello.share?.write(to: &writer)
            EntityList.write(hello.entities, to: &writer)
        }
        return writer.bytes
    }

    /// Reads an answer strictly where it matters (device, epoch, head); missing or absurd limits are replaced by the agent's own.
    package static func readResponse(_ body: [UInt8]) throws(ReplyError) -> HelloResponse {
        let object = try ReplyReader.object(body)
        guard let device = object["device_id"]?.text.flatMap({ DeviceID($0) }) else {
            throw ReplyError("/device_id", "a device id")
        }
        guard let epoch = object["epoch"]?.text.flatMap({ Identifier<Never>($0)?.text }) else {
            throw ReplyError("/epoch", "the name of the hub's history")
        }
        var deviceSeq: Int64?
        if let json = object["device_seq"], !json.isNull { deviceSeq = try ReplyReader.version(json, "/device_seq") }
        let limits = object["limits"]?.object ?? [:]
        func limit(_ name: String, _ ours: Int) -> Int {
            guard let value = limits[name]?.int, value > 0 else { return ours }
            return Int(min(value, Int64(ours)))
        }
        var hello = HelloResponse(
            device: device, epoch: epoch, head: try ReplyReader.version(object["head"], "/head"),
            time: object["time"]?.text.flatMap { RFC3339.timestamp($0) }, deviceSeq: deviceSeq,
            config: object["config"]?.int,
            versions: (object["sync_versions"]?.array ?? []).prefix(16).compactMap { $0.int.map { Int(clamping: $0) } },
            capabilities: try ReplyReader.texts(object["capabilities"], "/capabilities"),
            limits: HelloResponse.Announced(
                pushMutations: limit("push_mutations", Limits.batchMutationsMax),
                pushBytes: limit("push_bytes", Limits.batchBytesMax),
                pullRecords: limit("pull_records", Limits.pullRecordsMax),
                mutationBytes: limit("mutation_bytes", Limits.mutationBytes)),
            spread: .seconds(min(max(object["spread_s"]?.int ?? 30, 0), 3_600)))
        hello.share = DeviceShare(object)
        // Names of a form that this agent does not know are skipped, like everything that only concerns scopes.
        hello.entities = object["entities"]?.array.map { list in
            var seen: Set<EntityName> = []
            return list.prefix(EntityList.most).compactMap { $0.text.flatMap { EntityName($0) } }.filter { seen.insert($0).inserted }
        }
        return hello
    }

    private static let textBytes = 128
}

package struct HelloRequest: Hashable, Sendable {
    /// Version of the program.
    package var agent: String?
    package var platform: String?
    package var replica: ReplicaID?
    /// The device's own name for itself: our agents leave it to the header.
    package var device: DeviceID?
    package var maxSentSeq: Int64?
    package var highestAckedSeq: Int64?
    package var config: Int64?
    package var entities: [EntityName]

    package init(
        agent: String? = nil, platform: String? = nil, replica: ReplicaID? = nil, maxSentSeq: Int64? = nil,
        highestAckedSeq: Int64? = nil, config: Int64? = nil, entities: [EntityName] = []
    ) {
        self.agent = agent
        self.platform = platform
        self.replica = replica
        self.maxSentSeq = maxSentSeq
        self.highestAckedSeq = highestAckedSeq
        self.config = config
        self.entities = entities
    }
}

package struct HelloResponse: Hashable, Sendable {
    /// The limits that the hub enforces; the agent keeps within these and its own.
    package struct Announced: Hashable, Sendable {
        package var pushMutations: Int
        package var pushBytes: Int
        package var pullRecords: Int
        package var mutationBytes: Int

        package init(
            pushMutations: Int = Limits.batchMutationsMax, pushBytes: Int = Limits.batchBytesMax,
            pullRecords: Int = Limits.pullRecordsMax, mutationBytes: Int = Limits.mutationBytes
        ) {
            self.pushMutations = pushMutations
            self.pushBytes = pushBytes
            self.pullRecords = pullRecords
            self.mutationBytes = mutationBytes
        }
    }

    package var device: DeviceID
    package var epoch: String
    package var head: Int64
    package var time: Timestamp?
    package var deviceSeq: Int64?
    package var config: Int64?
    package var versions: [Int]
    /// Such as `gzip`: request bodies may be compressed; `groups`: mutations of a group are applied together or not at all.
    package var capabilities: [String]
    package var limits: Announced
    /// Agents that reach the hub again at the same moment wait a random part of this before they sync.
    package var spread: Duration
    /// The scopes and roles of the device; `nil`: the hub knows no scopes.
    package var share: DeviceShare?
    /// The entities that the device may ask for; `nil`: the hub does not say.
    package var entities: [EntityName]?

    package init(
        device: DeviceID, epoch: String, head: Int64, time: Timestamp?, deviceSeq: Int64?, config: Int64? = nil,
        versions: [Int] = HubHeader.supportedVersions, capabilities: [String], limits: Announced = Announced(),
        spread: Duration
    ) {
        self.device = device
        self.epoch = epoch
        self.head = head
        self.time = time
        self.deviceSeq = deviceSeq
        self.config = config
        self.versions = versions
        self.capabilities = capabilities
        self.limits = limits
        self.spread = spread
    }
}
