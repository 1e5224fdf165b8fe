/// Asks the hub for one record whose document is not kept on this device (PROTOCOL A8, B3).
///
/// No endpoint of a hub names a single record, and none is needed: a listing of one record that begins right before the id shows it. So
/// every hub can answer, and shows the share of this device alone: a record of others and no record are one answer.
package struct RecordFetch: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        case found(StreamPage.Record)
        /// The hub has no such record, or not for this device.
        case absent
        /// A sentence for people, without a full stop.
        case failed(String)
    }

    private let name: RecordName
    /// The history that the versions of this device belong to.
    package let epoch: String?
    /// The versions of the schemas of this device's documents.
    package let schemas: SchemaNumbers

    package init(_ name: RecordName, epoch: String?, schemas: SchemaNumbers = SchemaNumbers()) {
        self.name = name
        self.epoch = epoch
        self.schemas = schemas
    }

    package var request: SnapshotRequest { SnapshotRequest(entity: name.entity, after: name.id.predecessor, limit: 1) }

    package func handle(_ reply: HubReply) -> Step {
        switch reply {
        case .refused(let refusal): return .failed(refusal.detail)
        case .answered(let facts, let body):
            // A version is only comparable with one of the same history.
            guard facts.epoch == nil || facts.epoch == epoch else {
                return .failed("its database was restored or made anew, and this device must sync first")
            }
            guard facts.schemas[name.entity] <= schemas[name.entity] else {
                return .failed("it has a newer schema of \(name.entity), and this device must sync first")
            }
            do throws(ReplyError) {
                return read(try SnapshotMessages.readResponse(body))
            } catch {
                return .failed("its answer is not as agreed: \(error)")
            }
        }
    }

    private func read(_ page: SnapshotPage) -> Step {
        guard page.entity == name.entity else { return .failed("its answer is about another entity") }
        if let record = page.records.first(where: { $0.id == name.id }) { return .found(record) }
        if page.unreadable.contains(name.id) { return .failed("the record is damaged there") }
        let isPast = page.records.contains { $0.id > name.id }
        // No id lies between the place of the request and the record, so a hub that stops before it has not understood the request.
        if !isPast, page.hasMore, let last = page.after, last < name.id { return .failed("its answer does not get to the record") }
        return .absent
    }
}

extension RecordID {
    /// The greatest id before this one in the order of bytes; `nil` for the least of all.
    package var predecessor: RecordID? {
        var bytes = Array(text.utf8)
        guard let last = bytes.popLast(), let place = Self.letters.firstIndex(of: last) else { return nil }
        if place > 0, let greatest = Self.letters.last {
            bytes.append(Self.letters[place - 1])
            bytes += Array(repeating: greatest, count: 64 - bytes.count)
        }
        return bytes.isEmpty ? nil : RecordID(trusted: String(decoding: bytes, as: UTF8.self))
    }

    /// The characters of ids by their bytes.
    private static var letters: [UInt8] { Array("-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8) }
}
