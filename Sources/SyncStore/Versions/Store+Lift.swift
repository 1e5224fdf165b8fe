import SyncCore

extension Store {
    /// Judges a mutation by the version of the schema that its app wrote it in, and converts it into the present one.
    ///
    /// - Returns: Violations of that version, where the mutation is accepted all the same.
    func lift(_ mutation: inout NewMutation, _ rules: EntityRules) throws(StoreError) -> [Problem.Pointer] {
        guard let written = mutation.schema ?? rules.appVersion, written != rules.version else { return [] }
        let view: SchemaView
        do throws(Problem) {
            view = try SchemaView(written, rules, of: mutation.entity)
        } catch {
            throw StoreProblem.validation("/schema", error.detail)
        }
        guard mutation.action != .delete else { return [] }
        // An upsert of a present record is an update.
        var record: MirrorRow?
        if let eid = names.entities[mutation.entity], let id = mutation.recordID {
            record = try MirrorRow.find(database, eid: eid, id: id.text)
        }
        let isNew = mutation.action == .create || mutation.action == .upsert && record?.document == nil
        let content = MutationContent(
            isNew ? .create : .update, data: mutation.data, unset: mutation.unset, operations: mutation.operations)
        var faults: [Problem.Pointer] = []
        if let schema = view.schema, rules.validation != .off {
            faults = schema.faults(in: content)
            if rules.validation == .reject, !faults.isEmpty {
                throw StoreProblem.faults(faults, in: "\(mutation.entity), version \(written)")
            }
        }
        let seen = record?.parsedDocument.known
        let lifted = view.lift(content, over: seen)
        (mutation.data, mutation.unset, mutation.operations) = (lifted.data, lifted.unset, lifted.operations)
        mutation.stamps = lifted.stamps
        // A member that was moved into an object comes alone. An app writes the object as it saw it, with that member changed.
        for base in lifted.base.members {
            guard let part = lifted.data[base.name]?.object, let before = base.value.object else { continue }
            var whole = seen?[base.name]?.object ?? [:]
            for name in before.names where part[name] == nil { whole[name] = nil }
            for member in part.members { whole[member.name.text] = member.value }
            mutation.data[base.name.text] = .object(whole)
        }
        mutation.blobs = mutation.blobs.map { blob in
            guard var object = blob.object, let field = object["field"]?.text else { return blob }
            object["field"] = .string(view.present(of: field))
            return .object(object)
        }
        return faults
    }
}
