package import SyncCore

// Records of a back office, which are changed in the name of the hub: reference data is made this way.
extension Hub {
    /// The result of a publication.
    package struct Published: Sendable, Hashable {
        /// Number of records.
        package var count: Int
        /// Records among them that no device receives, because they have no value in the scope fields of their entity.
        package var unshared = 0
        /// The newest commit number.
        package var head: Int64

        package init(count: Int, unshared: Int = 0, head: Int64) {
            (self.count, self.unshared, self.head) = (count, unshared, head)
        }
    }

    /// The reason why nothing of a set was published.
    package enum PublishFailure: Error, Sendable {
        /// A line is not what it should be, or its document cannot be published.
        case line(PublishedLines.Fault)
        case hub(HubError)
    }

    /// Publishes a set of records in one transaction: all of it or nothing. Of two lines about one record the later one counts.
    ///
    /// The rows of a slice are read together and written together (``WriteGroup``), so a record costs no round trip and no sync of its own.
    /// Only a placeholder of a file that has not come costs one or two round trips.
    package func publish(
        _ lines: PublishedLines, to entity: EntityName, at now: Timestamp
    ) throws(PublishFailure) -> Published {
        // Other hubs need not wait for the reading of the first slice, which mostly is all.
        var slices = PublishedSlices(lines)
        do throws(PublishedLines.Fault) { try slices.advance() } catch { throw .line(error) }
        if isDown { reopen(at: now) }
        var fault: PublishedLines.Fault?
        do throws(HubError) {
            // A wrong line is the operator's news, and no failure of the database.
            return try transact(isReported: { fault == nil }) { () throws(DatabaseError) in
                try openIfNeeded(at: now)
                switch try publish(slices, to: entity, at: now) {
                case .success(let published): return published
                case .failure(let found):
                    fault = found
                    throw DatabaseError(.other, doing: "publish line \(found.line)", detail: found.detail)
                }
            }
        } catch {
            if let fault { throw .line(fault) }
            throw .hub(error)
        }
    }

    private func publish(
        _ slices: PublishedSlices, to entity: EntityName, at now: Timestamp
    ) throws(DatabaseError) -> Result<Published, PublishedLines.Fault> {
        // The transaction may be repeated, from the first slice on.
        var (slices, published) = (slices, Published(count: 0, head: 0))
        let rules = settings.rules[entity] ?? EntityRules()
        while !slices.present.isEmpty {
            if let fault = try publish(slices.present, to: entity, at: now) { return .failure(fault) }
            published.count += slices.present.count
            if rules.isScoped {
                published.unshared += slices.present.count { line in line.data.map { rules.scopes(of: $0).isEmpty } ?? false }
            }
            do throws(PublishedLines.Fault) { try slices.advance() } catch { return .failure(error) }
        }
        published.head = state.head
        return .success(published)
    }

    private func publish(
        _ slice: [PublishedLines.Line], to entity: EntityName, at now: Timestamp
    ) throws(DatabaseError) -> PublishedLines.Fault? {
        store.openGroup(head: state.head)
        try store.readAhead(Set(slice.map { RecordName(entity, $0.id) }).sorted())
        for line in slice {
            let name = RecordName(entity, line.id)
            if let detail = try change(name, to: line.data, at: now) {
                return PublishedLines.Fault(line: line.number, detail: "\(name): \(detail)")
            }
            store.group?.keepRequest()
        }
        try flush()
        store.closeGroup()
        return nil
    }

    /// Publishes one record in a transaction of its own.
    ///
    /// - Parameter data: The complete document; `nil` deletes the record.
    /// - Returns: The commit number.
    @discardableResult
    package func publish(_ name: RecordName, _ data: JSONObject?, at now: Timestamp) throws(HubError) -> Int64 {
        try transact { () throws(DatabaseError) in
            try openIfNeeded(at: now)
            if let detail = try change(name, to: data, at: now) { throw DatabaseError(.other, doing: "publish \(name)", detail: detail) }
            return state.head
        }
    }

    /// Changes a record within the present transaction. Each record has a commit number of its own, so pages of the feed may end anywhere.
    ///
    /// - Returns: The reason why a device could not read the document, or could not change it any more; nothing has changed then.
    private func change(_ name: RecordName, to data: JSONObject?, at now: Timestamp) throws(DatabaseError) -> String? {
        let commit = state.head + 1
        let hlc = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: Hub.node)
        let stamp = VersionedRecord.Stamp(version: commit, hlc: hlc, writer: .hub)
        // A damaged record is replaced: this repairs one without a backup.
        let row = try store.record(name)
        let old = row?.whole
        guard var data else {
            let rules = settings.rules[name.entity] ?? EntityRules()
            let gone = old?.deleted(stamp, rules: rules) ?? VersionedRecord(deleted: stamp, keeping: nil)
            try put(name, gone, data: nil, over: row, at: now)
            return nil
        }
        var text = data.json
        if let fault = Hub.fault(in: data, bytes: text.utf8.count, over: old?.data, of: row?.size ?? 0) { return fault }
        // A form is read before any device gets it: what its author cannot have meant is refused here, with its place.
        if let fault = settings.rules.formFault(in: data, of: name.entity) { return fault.detail }
        var waits: [BlobDigest] = []
        if Placeholder.mayBe(in: text) {
            (data, waits) = try settled(data, of: name, over: old?.linked)
            text = data.json
        }
        // Unchanged fields keep their stamps: only changed ones can conflict. All fields of a new record have its own.
        var stamps = old?.stamps ?? [:]
        for member in old == nil ? [] : data.members where old?.data?[member.name.text] != member.value { stamps[member.name] = stamp }
        for member in old?.data?.members ?? [] where data[member.name.text] == nil { stamps[member.name] = stamp }
        let record = VersionedRecord(data: data, stamp: stamp, exceptions: stamps, additions: old?.additions ?? [:])
        try put(name, record, data: text, over: row, at: now)
        for digest in waits { try store.addWaiting(name, for: digest) }
        return nil
    }

    private static let node = HybridClock.node(of: .hub)

    private func put(
        _ name: RecordName, _ record: VersionedRecord, data: String?, over row: HubStore.RecordRow?, at now: Timestamp
    ) throws(DatabaseError) {
        try store.put(
            name, record, data: data, originKey: "", scopes: scopeChange(of: name, from: row, to: record.data), at: now)
        // The office may show every file to whom it likes. Of files that the record named before it has said nothing.
        let known = row?.whole?.linked.map { Placeholder.digests(in: $0) } ?? []
        let named = record.data.map { Placeholder.digests(in: $0) } ?? []
        for digest in named.subtracting(known).sorted() { try show(digest, in: name, at: now) }
        try advance(to: record.version, adding: HubCounters())
    }

    private static func fault(in data: JSONObject, bytes: Int, over old: JSONObject?, of oldBytes: Int) -> String? {
        if let fault = DocumentLimits.fault(of: MutationContent(.create, data: data), in: data, over: old) { return fault.detail }
        let limit = DocumentLimits.bytesMax(over: old == nil ? 0 : oldBytes)
        return bytes <= limit ? nil : "the document has \(bytes) bytes, the limit is \(limit)"
    }
}

/// The slices of a set of records, of which one is in memory.
private struct PublishedSlices {
    private let lines: PublishedLines
    private var place: PublishedLines.Place
    /// None at the end.
    private(set) var present: [PublishedLines.Line] = []

    init(_ lines: PublishedLines) {
        self.lines = lines
        place = lines.start
    }

    mutating func advance() throws(PublishedLines.Fault) {
        present = try lines.next(from: &place)
    }
}

extension HubStore {
    /// Reads records all at once, for a group that has written nothing yet.
    func readAhead(_ names: [RecordName]) throws(DatabaseError) {
        var seen = WriteGroup.Seen()
        for name in names { seen.records.updateValue(nil, forKey: name) }
        try database.answer([HubStore.question(names)]) { _, set, row in
            seen.records.updateValue(record(names[set], from: row), forKey: names[set])
        }
        group?.readAhead(seen)
    }
}
