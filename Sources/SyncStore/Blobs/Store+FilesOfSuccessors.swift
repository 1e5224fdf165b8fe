import SyncCore
import SyncSQLite

// Files of a mutation that takes the place of another one: a retry, a decision of a conflict, or a change that is made again behind
// one. Its content has the placeholders already, as far as the rules, a person or a newer version of the schema have left them there. So
// they are not written again from the files that the app named.

extension Store {
    /// Marks the files as uploaded that are at the server by now.
    ///
    /// Only values that the mutation changes count. A value that is the same in its base belongs to the record and is no change.
    ///
    /// - Returns: The files that the mutation must wait for (`blobs.gate: before`).
    func renewFiles(in mutation: inout NewMutation) throws(StoreError) -> [BlobID] {
        var waits: [BlobID] = []
        for (field, digest) in Self.changedFiles(of: mutation) {
            // The file of another device.
            guard let row = try reads.blob(digest) else { continue }
            if row.state != .uploaded {
                waits.append(row.id)
            } else if let value = mutation.data[field] {
                mutation.data[field] = Placeholder.flipped(value, digest, remoteURL: row.progress.url) ?? value
            }
        }
        for operation in mutation.operations where operation.kind != .remove {
            for (_, digest) in Placeholder.waiting(in: [operation.top: operation.value]) {
                if let row = try reads.blob(digest), row.state != .uploaded { waits.append(row.id) }
            }
        }
        return gatesBlobs ? waits : []
    }

    /// - Throws: `.refused` with `validation` where the bytes of a file that the mutation shows are nowhere.
    func refuseIfFilesAreGone(_ mutation: NewMutation) throws(StoreError) {
        for (field, digest) in Self.changedFiles(of: mutation) {
            let row = try reads.blob(digest)
            // A mutation that names no files shows one of another device.
            guard row.map({ $0.state == .missing }) ?? !mutation.blobs.isEmpty else { continue }
            throw StoreProblem.validation(
                "/data/\(field)", "the bytes of the file that \(field) shows are gone; give it another value, or leave \(field) out")
        }
    }

    private static func changedFiles(of mutation: NewMutation) -> [(field: String, digest: BlobDigest)] {
        Placeholder.waiting(in: mutation.data).filter { mutation.data[$0.field] != mutation.base[$0.field] }
    }

    /// Lets a mutation show the files of another one in whose place it is sent, in the fields that it has kept.
    func moveLinks(of record: RecordName, from old: Int64, to new: Int64, in mutation: NewMutation) throws(StoreError) {
        for field in Set(mutation.data.names + mutation.operations.map(\.top)).sorted() {
            // A newer version of the schema may have moved the file into a member of an object.
            try database.run(
                """
                UPDATE blob_link SET seq = ?1 WHERE entity = ?2 AND id = ?3 AND seq = ?4
                    AND (field = ?5 OR substr(field, 1, length(?5) + 1) = ?5 || '.')
                """, .int(new), .text(record.entity.text), .text(record.id.text), .int(old), .text(field))
        }
    }
}
