import HubServer
import SyncCore
import SyncStore

// The hub hands a file to the devices that may read it and to no other, and tells no device of files of others (``FileOracle``).
extension Simulation {
    // MARK: Requests for files

    /// The answer to a request, as it leaves the hub.
    func recordFileAnswer(_ response: HTTPResponse, to flight: FileFlight) throws(Broken) {
        let device = agents[flight.agent].device
        // Credentials that do not hold learn nothing.
        if response.status == 401 { return }
        let path = flight.request.url.dropFirst(Self.hubURL.utf8.count)
        if path.hasPrefix("/v1/blobs/") { return try checkRead(response, flight, device) }
        try checkUpload(response, flight, device)
    }

    private func checkRead(_ response: HTTPResponse, _ flight: FileFlight, _ device: DeviceID) throws(Broken) {
        let digest = flight.digest
        let mayRead = oracle.mayRead(digest, device)
        let isHere = oracle.files.has(digest)
        switch response.status {
        case 200, 206:
            guard mayRead else {
                throw Broken(
                    "a device reads its own files and those of its records", "\(device) is given \(digest): \(describe(digest, device))")
            }
            try checkBytes(response, flight)
            count(oracle.files.has(digest, by: device) ? "own files read" : "files of records read")
            guard case .upload(_, .lookUp) = flight.purpose else { return }
            let waited = oracle.files.offer(digest, by: device)
            if !waited.isEmpty { count("files offered that a record waits for") }
            try recordArrived(device)
            try checkTold(digest, in: waited)
        case 404:
            guard !mayRead else {
                throw Broken("a device of a record can read its file", "\(device) is refused \(digest): \(describe(digest, device))")
            }
            guard flight.request.method == .head || response.body == unknownFile else {
                throw Broken(
                    "a file of others does not exist", "\(device) is told \(String(decoding: response.body, as: UTF8.self)) of \(digest)")
            }
            if isHere { count("files of others refused") }
            if isHere, oracle.files.naming(digest).contains(where: { oracle.receives($0, device) }) {
                count("files refused whose digest a record names")
            }
        default:
            throw Broken("a device of a record can read its file", "\(device) asks for \(digest) and is answered \(response.status)")
        }
    }

    private func checkBytes(_ response: HTTPResponse, _ flight: FileFlight) throws(Broken) {
        guard flight.request.method == .get, let bytes = SimFile.bytes(of: flight.digest) else { return }
        var expected = bytes
        if response.status == 206 {
            guard case .download(_, .piece(let at, let count)) = flight.purpose else {
                throw Broken("the hub sends what was asked for", "a part, where all of \(flight.digest) was asked for")
            }
            expected = Array(bytes.dropFirst(Int(at)).prefix(Int(count)))
        }
        guard response.body == expected else {
            throw Broken("a file is what it was", "\(flight.digest) is \(String(decoding: response.body, as: UTF8.self))")
        }
    }

    private func describe(_ digest: BlobDigest, _ device: DeviceID) -> String {
        let shown = oracle.files.showing(digest).map { "\($0)\(oracle.receives($0, device) ? ", which it receives" : "")" }
        let named = oracle.files.naming(digest).map(\.description)
        return "brought \(oracle.files.has(digest, by: device)), shown in \(shown), named in \(named)"
    }

    // MARK: Uploads

    /// An upload has no byte that was not sent, whoever has brought the same file before. When it is whole, it counts as its device's.
    private func checkUpload(_ response: HTTPResponse, _ flight: FileFlight, _ device: DeviceID) throws(Broken) {
        guard (200..<300).contains(response.status) else { return }
        let place: String
        if flight.request.method == .post {
            place = response.headers["Location"] ?? ""
            oracle.files.recordsOfUploads[place] = flight.record
        } else {
            place = String(flight.request.url.dropFirst(Self.hubURL.utf8.count))
        }
        let offset = Tus.count(flight.request.headers[Tus.offset]) ?? 0
        let most = oracle.files.send(to: place, at: offset, flight.bytes.count)
        guard let reached = Tus.count(response.headers[Tus.offset]) else { return }
        guard reached <= most else {
            throw Broken(
                "an upload is asked for in full",
                "\(device) has sent \(most) bytes of \(flight.digest), and the hub says that it has \(reached)")
        }
        guard let size = SimFile.bytes(of: flight.digest)?.count, let found = response.headers[Tus.reprDigest] else { return }
        guard reached == size, BlobDigest(field: found) == flight.digest else {
            throw Broken("the hub keeps the bytes that were sent", "\(place) has \(reached) of \(size) bytes, and is \(found)")
        }
        guard oracle.files.end(place) else { return }
        let isKnown = oracle.files.has(flight.digest), isOwn = oracle.files.has(flight.digest, by: device)
        if isKnown, !isOwn { count("files brought again by another device") }
        let before = oracle
        let isNamed = oracle.files.naming(flight.digest).contains { name in
            oracle.files.unshown(name).contains(flight.digest) && !oracle.files.isNamer(device, of: flight.digest, in: name)
        }
        if isNamed { count("files brought that a record of another device names") }
        let record = oracle.files.recordsOfUploads[place]
        // Of the office, or of a device that has brought the file before: every record that shows it says that it has come.
        let shown = oracle.files.showing(flight.digest)
        let waited = oracle.files.bring(flight.digest, by: device) { name in name == record && before.receives(name, device) }
        try recordArrived(device, bringing: flight.digest)
        if !isOwn { try checkTold(flight.digest, in: waited + shown) }
    }

    // MARK: Records

    /// After a push: the files that records name now. What its mutations did one after the other counts as one change.
    func recordFiles(of changed: Set<RecordName>, _ device: DeviceID) throws(Broken) {
        guard scenario.hasFiles else { return }
        var vouched: [RecordName] = []
        for name in changed.sorted() where name.entity == Shares.orders {
            let document = oracle.rules.document(name)
            let isNew = oracle.files.recordDocument(name, document, by: device)
            if isNew || SimFile.shown(in: document)?.isUploaded == false { vouched.append(name) }
        }
        let before = oracle
        for name in vouched { oracle.files.vouch(name, device) { before.mayRead($0, device) } }
        try recordArrived(device)
    }

    /// The hub has written in records that a file has arrived, which is a change of its own. The devices of the record may read the file
    /// then, unless the record told of it before, or the device that has written the placeholder has brought the file.
    ///
    /// - Parameter brought: The file that the request has brought.
    private func recordArrived(_ device: DeviceID, bringing brought: BlobDigest? = nil) throws(Broken) {
        for name in oracle.files.named {
            guard var document = oracle.rules.document(name), let file = SimFile.shown(in: document), !file.isUploaded,
                let digest = BlobDigest(file.digest), let held = try Broken.none({ try hub.hub.record(name) }), let data = held.data,
                let now = SimFile.shown(in: data), now.isUploaded, sameBytes(now.digest, file.digest), let rules = hubRules[name.entity]
            else { continue }
            let isBrought = digest == brought && oracle.rules.author(of: SimFile.field, in: name) == device
            guard isBrought || oracle.files.isShown(digest, in: name) || oracle.files.wasTold(digest, in: name) else {
                throw Broken(
                    "a record tells nothing of files of others", "\(name) says that \(digest) has arrived, after a request of \(device)")
            }
            document[SimFile.field] = data[SimFile.field]
            oracle.rules.publish(name, document, version: held.version, rules, at: hubTime)
            oracle.files.recordDocument(name, document, by: device)
            count("files arrived in records")
        }
    }

    /// The upload of a file is over, whether its bytes were needed or not, and the records that waited for it say so.
    private func checkTold(_ digest: BlobDigest, in names: [RecordName]) throws(Broken) {
        for name in names {
            guard let data = try Broken.none({ try hub.hub.record(name) })?.data, let file = SimFile.shown(in: data),
                BlobDigest(file.digest) == digest, !file.isUploaded
            else { continue }
            throw Broken("a record waits for its file until its device has settled it", "\(name) still waits for \(digest)")
        }
    }

    // MARK: The end

    /// Files that still have to go to the hub.
    func waitingFiles(of agent: SimAgent) throws(Broken) -> [String] {
        guard scenario.hasFiles, let store = agent.store else { return [] }
        let counts = try Broken.none { try store.reads.blobCounts() }
        return counts.pending + counts.failed == 0 ? [] : ["agent \(agent.index) has \(counts.pending + counts.failed) files to upload"]
    }

    func checkFiles() throws(Broken) {
        guard scenario.hasFiles else { return }
        for agent in agents {
            for digest in SimFile.digests {
                let flight = FileFlight(
                    agent: agent.index, life: agent.life, digest: digest, purpose: .probe,
                    request: fileRequest(.get, Self.hubURL + "/v1/blobs/" + digest.hex, agent), generation: hub.generation)
                try recordFileAnswer(hub.handleFile(flight.request, at: hubTime), to: flight)
            }
            try checkParked(agent)
        }
        // A hub or a database that went back may lack what its devices have brought.
        guard scenario.faults.isDisjoint(with: [.hubRestore, .rollback, .restore, .clone]) else { return }
        for agent in agents { try checkBrought(agent) }
    }

    /// The file of work that was parked with its record is still here, or at the hub.
    func checkParked(_ agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        for parked in try mutations(of: agent, .rejected) where parked.problem?.code == Problem.revoked {
            guard let number = byKey[parked.key], let file = operations[number].file, !operations[number].isDoubtful else { continue }
            let row = try Broken.none { try store.reads.blob(SimFile.digests[file]) }
            guard let row, row.hasFile || row.state == .uploaded else {
                throw Broken("parked work keeps its file", "agent \(agent.index), \(name(of: parked.key)): the file \(file) is gone")
            }
            count("parked work with its file")
        }
    }

    /// Every file that a device has is at the hub, and every record that it has put a file into shows it.
    private func checkBrought(_ agent: SimAgent) throws(Broken) {
        guard let store = agent.store else { return }
        for digest in SimFile.digests {
            guard let row = try Broken.none({ try store.reads.blob(digest) }), row.state == .uploaded, row.fetch == nil else { continue }
            guard oracle.files.has(digest) else { throw Broken("what was uploaded is at the hub", "agent \(agent.index), \(digest)") }
            for name in oracle.files.naming(digest) where oracle.files.isNamer(agent.device, of: digest, in: name) {
                guard !oracle.files.has(digest, by: agent.device) else {
                    throw Broken("a record shows the files of its device", "\(name) does not show \(digest) of \(agent.device)")
                }
                // It wrote the digest by hand, so it has not offered the file since.
                count("records that do not show a file their device has")
            }
        }
    }
}
