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
        if row.isDamaged || !document.isReadable { throw StoreProblem.damaged(name) }
        guard let record = document.known else { return nil }
        progress.saysComplete = rules.complete?.matches(record) ?? false
        guard let settings = rules.form, let form = settings.name(in: record) else { return progress }
        var cache = FormCache()
        let found = try cache.find(form, settings) { name throws(StoreError) in try formSource(name) }
        let answers = try settings.answers.map { answers throws(StoreError) in try self.answers(to: name.id, answers) }
        let joined = answers.flatMap { settings.answers?.join($0, to: record) } ?? record
        progress.found =
            switch found {
            case .form(let read): .judged(form, read.progress(of: joined))
            case .absent: .unjudged(form, .absent, reason: "the form \(form.text) is not on this device")
            case .unusable(let problem): .unjudged(form, .unusable, reason: problem.detail)
            }
        return progress
    }

    /// The answers of a record, in the order of their ids, as far as their documents are here.
    func answers(to id: RecordID, _ answers: FormSettings.Answers) throws(StoreError) -> [JSONObject] {
        guard let path = FieldPath([answers.ref]) else { return [] }
        var query = RecordQuery(answers.entity)
        query.filter = .test(path, .eq(.string(id.text)))
        query.limit = 1_000
        var found: [JSONObject] = []
        repeat {
            let page = try records(query)
            found += page.items.compactMap { StoredJSON.Document($0.view).known }
            query.cursor = page.next
        } while query.cursor != nil && found.count < Form.questionsMax
        return found
    }

    /// The record of a form as this device has it; `nil`: it is not here, or its document was dropped or is damaged.
    func formSource(_ name: RecordName) throws(StoreError) -> FormCache.Source? {
        let eid = try database.number("SELECT eid FROM entity WHERE name = ?", .text(name.entity.text))
        guard let eid, let row = try MirrorRow.find(database, eid: eid, id: name.id.text), !row.isDamaged, let text = row.document else {
            return nil
        }
        return FormCache.Source(mark: text) { StoredJSON.Document(text).known }
    }
}
