package import SyncCore
import SyncSQLite

extension StoreReads {
    /// - Returns: `nil` when there is no such record.
    /// - Throws: `.refused` when the record is damaged.
    package func progress(_ name: RecordName, _ rules: EntityRules) throws(StoreError) -> RecordProgress? {
        let eid = try database.number("SELECT eid FROM entity WHERE name = ?", .text(name.entity.text))
        guard let eid, let row = try MirrorRow.find(database, eid: eid, id: name.id.text), row.isKnown else { return nil }
        var progress = RecordProgress(record: name)
        if row.isNotKept {
            progress.isKept = false
            return progress
        }
        let document = row.parsedDocument
        if row.isDamaged || !document.isReadable { throw Refusal.damaged(name) }
        guard let record = document.known else { return nil }
        progress.saysComplete = rules.complete?.matches(record) ?? false
        guard let settings = rules.form, let form = settings.name(in: record) else { return progress }
        var shelf = FormShelf()
        let found = try shelf.find(form, settings) { name throws(StoreError) in try formSource(name) }
        progress.found =
            switch found {
            case .form(let read): .judged(form, read.progress(of: record))
            case .absent: .unjudged(form, .absent, reason: "the form \(form.text) is not on this device")
            case .unusable(let problem): .unjudged(form, .unusable, reason: problem.detail)
            }
        return progress
    }

    /// The record of a form as this device has it; `nil`: it is not here, or its document was dropped or is damaged.
    func formSource(_ name: RecordName) throws(StoreError) -> FormShelf.Source? {
        let eid = try database.number("SELECT eid FROM entity WHERE name = ?", .text(name.entity.text))
        guard let eid, let row = try MirrorRow.find(database, eid: eid, id: name.id.text), !row.isDamaged, let text = row.document else {
            return nil
        }
        return FormShelf.Source(mark: text) { StoredJSON.Document(text).known }
    }
}
