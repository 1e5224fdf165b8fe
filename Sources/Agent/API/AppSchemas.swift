import LocalAPI
import SyncCore
import SyncHTTP
import SyncStore

/// The versions of the schemas in which one app writes and reads: as its header `Schema` says, else as the configuration says
/// (`app_schema`), else the present ones (PROTOCOL D7).
struct AppSchemas: Sendable {
    private let told: SchemaNumbers
    private let rules: RuleBook

    /// - Throws: 400 `malformed` for a header that cannot be read.
    init(_ request: RequestHead, _ rules: RuleBook) throws(Problem) {
        self.rules = rules
        told = SchemaNumbers(reading: request.header("Schema"))
        guard told.isReadable else {
            throw LocalProblem.malformed.problem("the header field Schema: expected \(SchemaNumbers.expected)")
        }
    }

    /// The mutation with the version that its app writes in, unless it names one itself.
    func stamped(_ mutation: NewMutation) -> NewMutation {
        guard mutation.schema == nil, let version = told.named[mutation.entity] else { return mutation }
        var mutation = mutation
        mutation.schema = version
        return mutation
    }

    /// The result of an enqueue with each record in the version in which the mutation was written.
    func shown(_ enqueued: [Enqueued], for mutations: [NewMutation]) -> [Enqueued] {
        // Most lists are of one entity.
        var last: (entity: EntityName, view: SchemaView)?
        return zip(enqueued, mutations).map { item, mutation in
            let rules = rules[mutation.entity] ?? EntityRules()
            let version = mutation.schema ?? rules.appVersion ?? rules.version
            guard version != rules.version else { return item }
            if last?.entity != mutation.entity || last?.view.version != version {
                // `try?`: the store has accepted the version.
                last = (try? SchemaView(version, rules, of: mutation.entity)).map { (mutation.entity, $0) }
            }
            guard let view = last?.view else { return item }
            var item = item
            item.record = item.record.map { view.lower($0) }
            item.kept = view.lower(values: item.kept)
            return item
        }
    }

    /// A record in the version in which the app wrote a mutation of it.
    ///
    /// - Parameters:
    ///   - stored: The version of the record's document.
    ///   - schema: The version that the mutation names.
    /// - Returns: `nil` when no steps lead to that version.
    func shown(_ record: RecordSnapshot, _ stored: StoredSchema, schema: Int?) -> RecordSnapshot? {
        let rules = rules[record.name.entity] ?? EntityRules()
        let version = schema ?? rules.appVersion ?? rules.version
        // `try?`: the store has accepted the version.
        return (try? SchemaView(version, rules, of: record.name.entity))?.over(stored, rules)?.lower(record)
    }

    /// - Throws: 422 `validation` for a version that is not known or not accepted.
    func view(of entity: EntityName) throws(Problem) -> AppView {
        let rules = rules[entity] ?? EntityRules()
        do throws(Problem) {
            let present = try SchemaView(told.named[entity] ?? rules.appVersion ?? rules.version, rules, of: entity)
            return AppView(entity: entity, rules: rules, present: present)
        } catch {
            throw LocalProblem.validation.problem(error.detail, errors: [Problem.Pointer("/schema", error.detail)])
        }
    }
}

/// The version in which an app reads an entity. The stored documents may have another version than the rules while they are converted.
struct AppView: Sendable {
    fileprivate let entity: EntityName
    fileprivate let rules: EntityRules
    fileprivate let present: SchemaView

    /// The view of the documents that a read sees.
    ///
    /// - Throws: `.refused` with `starting` when no steps lead from their version to the app's.
    func over(_ reads: StoreReads) throws(StoreError) -> SchemaView {
        guard rules.versions != nil else { return present }
        if let view = present.over(try reads.documentSchema(of: entity), rules) { return view }
        throw .refused(LocalProblem.starting.problem("the documents of \(entity) are not converted to version \(rules.version) yet"))
    }
}

extension SchemaView {
    /// A record in the app's version.
    func lower(_ record: RecordSnapshot) -> RecordSnapshot {
        if down.isEmpty { return record }
        var record = record
        record.view = lower(text: record.view)
        record.base = lower(text: record.base)
        return record
    }

    private func lower(text: String?) -> String? {
        guard let text else { return nil }
        // The store has checked the row; a document that is no JSON all the same is shown as it is.
        guard let document = (try? JSONReader.read(text, limits: .stored))?.object else { return text }
        return lower(document: document).json
    }

    /// The query of an app in the present version.
    func lift(_ query: RecordQuery) -> RecordQuery {
        if isPresent { return query }
        var query = query
        query.filter = lift(query.filter)
        for index in query.sort.indices {
            if case .field(let path) = query.sort[index].key { query.sort[index].key = .field(lift(path)) }
        }
        return query
    }
}
