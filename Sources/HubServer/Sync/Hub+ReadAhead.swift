import SyncCore

// Reads the rows that the requests of a turn are known to need, all at once.
extension Hub {
    /// Reads the bodies of the first pushes before the transaction begins, so that no other hub waits for that.
    func readingBodies(of requests: [HubRequest]) -> [HubRequest] {
        var room = ReadPush.bytesMax
        return requests.map { request in
            guard room > 0 else { return request }
            var request = request
            readBody(of: &request)
            room -= request.push?.bytes ?? 0
            return request
        }
    }

    private func readBody(of request: inout HubRequest) {
        if request.push == nil { request.push = bodies.push(in: request) }
    }

    var bodies: BodyReader { BodyReader(compressor: settings.compressor) }

    /// Reads the bodies of the requests that are answered from one group, and says where the next group begins.
    ///
    /// - Parameter most: Largest number of mutations of several pushes.
    func endOfGroup(from start: Int, in requests: inout [HubRequest], most: Int = ReadPush.mutationsMax) -> Int {
        var (end, mutations, bytes) = (start, 0, 0)
        while end < requests.count {
            readBody(of: &requests[end])
            mutations += requests[end].push?.items.count ?? 0
            bytes += requests[end].push?.bytes ?? 0
            if end > start, mutations > most || bytes > ReadPush.bytesMax { break }
            end += 1
        }
        return end
    }

    /// Asks a database that is a round trip away for the rows that the requests name.
    func readAhead(_ requests: [HubRequest], at now: Timestamp) throws(DatabaseError) {
        guard store.database.isShared else { return }
        try store.readAhead(wanted(by: requests, at: now))
    }

    /// The rows that the requests name.
    func wanted(by requests: [HubRequest], at now: Timestamp) -> WantedRows {
        let grouped = requests.filter { Endpoint.find($0.path)?.writesInGroup == true }
        var wanted = WantedRows()
        for (request, caller) in known(grouped, at: now) {
            wanted.add(caller.device, caller.replica)
            wanted.add(request.push?.items ?? [], of: caller.device)
        }
        return wanted
    }

    /// Devices and databases of the requests.
    func callers(of requests: [HubRequest], at now: Timestamp) -> [(device: DeviceID, replica: ReplicaID?)] {
        known(requests, at: now).map { ($0.caller.device, $0.caller.replica) }
    }

    private func known(_ requests: [HubRequest], at now: Timestamp) -> [(request: HubRequest, caller: HubGate.Caller)] {
        let gate = HubGate(tokens: settings.tokens, grace: settings.tokenGrace, now: now)
        return requests.compactMap { request in
            guard let endpoint = Endpoint.find(request.path), endpoint.isForDevices else { return nil }
            do throws(HubRefusal) {
                return (request, try gate.caller(request, at: endpoint))
            } catch {
                // It is refused in its turn, and needs no row for that.
                return nil
            }
        }
    }
}

/// Names of rows, each once.
struct WantedRows {
    private(set) var replicas: [DeviceID: Set<ReplicaID?>] = [:]
    private(set) var keys: Set<WriteGroup.KeyName> = []
    private(set) var records: Set<RecordName> = []
    private(set) var entities: Set<EntityName> = []
    /// Creations on which changes may rest whose device has not seen the record.
    private(set) var refusals: Set<WriteGroup.RefusalName> = []

    mutating func add(_ device: DeviceID, _ replica: ReplicaID?) { replicas[device, default: []].insert(replica) }

    mutating func add(_ items: [IncomingItem], of device: DeviceID) {
        for item in items {
            keys.insert(WriteGroup.KeyName(device: device, key: item.key))
            if let record = item.record {
                records.insert(record)
                entities.insert(record.entity)
            }
            guard case .success(let mutation) = item.content else { continue }
            if mutation.mayFollowRefusedCreate { refusals.insert(WriteGroup.RefusalName(device: device, record: mutation.record)) }
            for key in mutation.supersedes + mutation.dependsOn { keys.insert(WriteGroup.KeyName(device: device, key: key)) }
        }
    }
}

extension HubStore {
    /// Reads rows all at once, for a group that has written nothing yet.
    func readAhead(_ wanted: WantedRows) throws(DatabaseError) {
        guard !wanted.replicas.isEmpty else { return }
        group?.readAhead(try read(wanted, with: []) { _, _ in })
    }

    /// Reads the row of the hub, and the rows for a group, in the present transaction, which decides without the lock of the hub.
    ///
    /// - Returns: `nil`: there is no hub.
    func hub(with wanted: WantedRows) throws(DatabaseError) -> (row: HubRow, seen: WriteGroup.Seen)? {
        var hub: HubRow?
        let seen = try read(wanted, with: [Question(hubQuery)]) { _, row in hub = HubStore.hubRow(row) }
        return try checked(hub).map { ($0, seen) }
    }

    /// - Parameter others: Questions that are asked with them; `body` receives the index of one and a row of its answer.
    private func read(
        _ wanted: WantedRows, with others: [Question], _ body: (Int, any DatabaseRow) -> Void
    ) throws(DatabaseError) -> WriteGroup.Seen {
        let callers = wanted.replicas.flatMap { device, replicas in replicas.map { (device: device, replica: $0) } }
        let keys = KeyQuestions(wanted.keys, in: database.spelling.keys)
        let (records, entities, refusals) = (Array(wanted.records), Array(wanted.entities), Array(wanted.refusals))
        var seen = WriteGroup.Seen(asking: callers)
        for refusal in refusals { seen.refusals.updateValue(nil, forKey: refusal) }
        for key in wanted.keys { seen.keys.updateValue(nil, forKey: key) }
        for name in records { seen.records.updateValue(nil, forKey: name) }
        for entity in entities { seen.horizons[entity] = 0 }
        let ofRecords = [
            HubStore.question(records), Question(HubStore.horizonQuery, entities.map { [.text($0.text)] }),
            Question(
                HubStore.refusalQuery, refusals.map { [.text($0.device.text), .text($0.record.entity.text), .text($0.record.id.text)] }),
        ]
        let questions = ofRecords + self.questions(callers) + keys.questions
        let ofKeys = ofRecords.count + HubStore.questionsCount
        try database.answer(questions + others) { question, set, row in
            switch question {
            case questions.count...: body(question - questions.count, row)
            case ofKeys...:
                let name = keys.names[question - ofKeys][set]
                seen.keys.updateValue(HubStore.keyRow(name.key, row), forKey: name)
            case ofRecords.count...:
                HubStore.add(row, of: question - ofRecords.count, to: &seen.views[callers[set].device, default: DeviceView()])
            case 0: seen.records.updateValue(record(records[set], from: row), forKey: records[set])
            case 1: seen.horizons[entities[set]] = row.int(0)
            default: seen.refusals.updateValue(row.int(0), forKey: refusals[set])
            }
        }
        return seen
    }
}

extension IncomingMutation {
    /// Its device has not seen the record at the hub, and does not create it with this change.
    var mayFollowRefusedCreate: Bool { content.action != .create && baseVersion <= 0 }
}
