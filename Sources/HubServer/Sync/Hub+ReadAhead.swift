import SyncCore

// What the requests of a turn are known to ask for, asked in one go.
extension Hub {
    /// Reads the bodies of pushes before the transaction begins: nobody has to wait for that.
    func readingBodies(of requests: [HubRequest]) -> [HubRequest] {
        requests.map { request in
            guard Endpoint.find(request.path) == .push, request.method == "POST" else { return request }
            var request = request
            do throws(HubRefusal) {
                let body = try body(of: request)
                request.push = .success(try reading { () throws(Problem) in try PushMessages.readRequest(body) })
            } catch {
                request.push = .failure(error)
            }
            return request
        }
    }

    /// Asks a database that is a round trip away for the rows that the requests name.
    func readAhead(_ requests: [HubRequest], at now: Timestamp) throws(DatabaseError) {
        guard store.database.isShared else { return }
        let grouped = requests.filter { Endpoint.find($0.path)?.writesInGroup == true }
        var wanted = WantedRows()
        for (request, caller) in known(grouped, at: now) {
            wanted.add(caller.device, caller.replica)
            if case .success(let push) = request.push { wanted.add(push.items, of: caller.device) }
        }
        try store.readAhead(wanted)
    }

    /// Devices and databases that the requests speak for.
    func callers(of requests: [HubRequest], at now: Timestamp) -> [(device: DeviceID, replica: ReplicaID?)] {
        known(requests, at: now).map { ($0.caller.device, $0.caller.replica) }
    }

    private func known(_ requests: [HubRequest], at now: Timestamp) -> [(request: HubRequest, caller: HubGate.Caller)] {
        let gate = HubGate(tokens: settings.tokens, grace: settings.tokenGrace, now: now)
        return requests.compactMap { request in
            guard let endpoint = Endpoint.find(request.path), endpoint.isForDevices else { return nil }
            do throws(HubRefusal) {
                return (request, try gate.caller(request.headers, certificate: request.certificateDevice, at: endpoint))
            } catch {
                // It is refused when its turn comes, and needs no row for that.
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

    mutating func add(_ device: DeviceID, _ replica: ReplicaID?) { replicas[device, default: []].insert(replica) }

    mutating func add(_ items: [IncomingItem], of device: DeviceID) {
        for item in items {
            keys.insert(WriteGroup.KeyName(device: device, key: item.key))
            if let record = item.record {
                records.insert(record)
                entities.insert(record.entity)
            }
            guard case .success(let mutation) = item.content else { continue }
            for key in mutation.supersedes + mutation.dependsOn { keys.insert(WriteGroup.KeyName(device: device, key: key)) }
        }
    }
}

extension HubStore {
    /// Reads rows in one go, for a group that has written nothing yet.
    func readAhead(_ wanted: WantedRows) throws(DatabaseError) {
        let callers = wanted.replicas.flatMap { device, replicas in replicas.map { (device: device, replica: $0) } }
        guard !callers.isEmpty else { return }
        let (keys, records, entities) = (Array(wanted.keys), Array(wanted.records), Array(wanted.entities))
        var seen = WriteGroup.Seen()
        for (device, replica) in callers {
            seen.views[device, default: DeviceView()].asked.formUnion(replica.map { [$0] } ?? [])
        }
        for key in keys { seen.keys.updateValue(nil, forKey: key) }
        for name in records { seen.records.updateValue(nil, forKey: name) }
        for entity in entities { seen.horizons[entity] = 0 }
        let questions =
            HubStore.questions(callers) + [
                HubStore.question(keys), HubStore.question(records), Question(HubStore.horizonQuery, entities.map { [.text($0.text)] }),
            ]
        try database.answer(questions) { question, set, row in
            switch question {
            case 0, 1: HubStore.add(row, of: question, to: &seen.views[callers[set].device, default: DeviceView()])
            case 2: seen.keys.updateValue(HubStore.keyRow(keys[set].key, row), forKey: keys[set])
            case 3: seen.records.updateValue(record(records[set], from: row), forKey: records[set])
            default: seen.horizons[entities[set]] = row.int(0)
            }
        }
        group?.readAhead(seen)
    }
}
