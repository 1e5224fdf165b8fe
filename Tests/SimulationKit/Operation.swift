import SyncCore

/// One change that an app asked for, and the answer that it got.
struct Operation {
    enum Answer {
        /// No answer, now or ever, because the agent died first. The change may have been stored or not.
        case none
        case refused
        case acknowledged(MutationKey)
    }

    /// Number of the operation, in the order of the requests.
    var number: Int
    var agent: Int
    var record: RecordName
    var action: NewMutation.Action
    var data: JSONObject
    var operations: [FieldOperation]
    var priority: Priority
    var app = Entities.app
    var dependsOn: [MutationKey] = []
    var ttl: Duration?
    /// The file that its app adds and shows in the record, by its number in ``SimFile/contents``.
    var file: Int?
    /// The name of that file on its device, in the form of the local API.
    var blobs: [JSON] = []
    /// The version of the schema that its app speaks; `nil`: the entity has none.
    var schema: Int?
    /// The text of the record as its app saw it.
    var sight = ""
    /// The agent knew the hub's value of `m` when the change was made.
    var sawDisputed = false
    /// Members of `o` that other devices write and that a repeated request sets back. The request holds the app's older view of the
    /// object.
    var undone: Set<String> = []
    var answer = Answer.none
    /// The older mutation that this one was coalesced into.
    var into: MutationKey?
    /// The number of its app's acknowledgement among all that were given.
    var acknowledgement = 0
    /// Place among all operations that databases of agents have taken; `nil` before that. A repeated request takes its place when it is
    /// repeated, after changes that were enqueued meanwhile.
    var place: Int?
    /// Number of the acknowledgement of the cancellation; 0 if there was none.
    var cancellation = 0
    /// The agent's database went back to a time before the operation or its cancellation, so no program knows of it any more.
    var isLost = false
    /// The agent's database went back to a time after the operation, so it cannot know whether the operation was sent since.
    var isDoubtful = false
    /// Number of times that the hub accepted it.
    var applied = 0
    /// An earlier history of the hub accepted it.
    var wasApplied = false

    /// A text that marks the operation in every document that it changes.
    var token: String { Operation.token(number) }

    static func token(_ number: Int) -> String { "t\(number)" }

    /// - Returns: `nil` when the text names no operation.
    static func number(of token: String?) -> Int? {
        guard let token, token.utf8.first == UInt8(ascii: "t") else { return nil }
        return Int(token.dropFirst())
    }

    var key: MutationKey? {
        if case .acknowledged(let key) = answer { key } else { nil }
    }

    /// A database has taken it, and its app does not know.
    var isUnheard: Bool {
        if case .none = answer { place != nil } else { false }
    }

    var mutation: NewMutation {
        var mutation = NewMutation(
            action, record.entity, record.id, data: data, operations: operations, priority: priority, dependsOn: dependsOn,
            ttl: ttl, size: JSON.object(data).bytes.count)
        mutation.schema = schema
        mutation.blobs = blobs
        return mutation
    }
}

/// What an app sends in one request: one operation, or an atomic list.
struct AppRequest {
    var agent: Int
    /// Places in the list of all operations.
    var operations: [Int]
    var isAtomic: Bool
    /// Idempotency key of the app. With one, the app repeats the request until it gets an answer; without one, it asks once.
    var appKey: AppKey?
}

/// The entities of the simulated world, and the rules of both sides.
enum Entities {
    /// Has every kind of field. A deletion wins over a change.
    static let works = EntityName(trusted: "works")
    /// An update restores a deleted record.
    static let spots = EntityName(trusted: "spots")
    /// The agents believe that they may change these records, and the hub refuses it.
    static let prices = EntityName(trusted: "prices")
    static let readings = EntityName(trusted: "readings")
    static let templates = EntityName(trusted: "templates")
    /// Parents; their children are rooms, which name their area. With the model of the rules a person decides about the deletion of a
    /// room.
    static let areas = EntityName(trusted: "areas")
    static let rooms = EntityName(trusted: "rooms")

    /// Entities that only some histories have. Other histories stay as they were before these entities existed.
    struct Extras: Hashable, Sendable {
        /// Adds entities of which a device receives only its share (``Shares``).
        var sharesOut: Bool
        /// Adds entities whose schemas and forms change (``Visits``, ``Audits``).
        var changesSchemas: Bool
        /// Adds the entity whose documents devices drop (``Tasks``).
        var keeps: Bool
        /// Shared records name parents that are shared, too.
        var hasParents = false
        /// There are no other entities than those of which a device receives only its share, and the grants.
        var hasSharesAlone = false

        static let all = Extras(sharesOut: true, changesSchemas: true, keeps: true)
    }

    static func mirrored(_ extras: Extras) -> [EntityName] {
        if extras.hasSharesAlone { return Shares.entities }
        var names = [areas, prices, rooms, spots, templates, works]
        if extras.sharesOut { names += Shares.entities }
        if extras.changesSchemas { names += [Visits.entity, Audits.entity, Audits.forms] }
        if extras.keeps { names.append(Tasks.entity) }
        return names.sorted()
    }
    /// Entities with a counter and a list, which devices write.
    static let counted = Set([areas, rooms, spots, works] + Shares.entities + [Visits.entity, Audits.entity, Tasks.entity])

    /// The element of `parts` for a tag. Elements are told apart by their id.
    static func part(_ tag: String) -> JSON { ["id": .string(tag), "colour": .string("as \(tag)")] }

    static let app = AppName(trusted: "app")
    /// An app that asks for more changes than it may have open.
    static let greedy = AppName(trusted: "greedy")
    static let greedyQuota = 3

    static func rules(ofHub: Bool, _ extras: Extras) -> RuleBook {
        var book = extras.hasSharesAlone ? RuleBook([:], isStrict: true) : rulesOfAll(ofHub: ofHub)
        if extras.sharesOut { book.entities.merge(Shares.rules(ofHub: ofHub)) { own, _ in own } }
        if extras.changesSchemas {
            book.entities[Visits.entity] = Visits.rules
            book.entities.merge(Audits.rules) { own, _ in own }
        }
        if extras.keeps {
            if !extras.hasSharesAlone { book.entities[Tasks.entity] = Tasks.rules(ofHub: ofHub) }
            if extras.sharesOut, !ofHub { book.entities[Shares.orders]?.keep = Tasks.rule }
        }
        if extras.hasParents { book.entities[Shares.jobs]?.refs = ["order": Shares.orders] }
        return book
    }

    private static func rulesOfAll(ofHub: Bool) -> RuleBook {
        var works = EntityRules()
        works.fields = [
            "s": .lww, "v": .server, "c": .client, "m": .manual, "n": .counter, "a": .append, "tags": .set, "txt": .append,
            "parts": .set, "o": .merge, "p": .max, "q": .min,
        ]
        var spots = EntityRules()
        spots.fields = ["v": .server, "c": .client, "n": .counter, "a": .append, "p": .max]
        spots.onDeleted = .updateWins
        works.declaredIndexes = [RecordIndex("n"), RecordIndex("s,updated_at")].compactMap { $0 }
        spots.declaredUndo = true
        works.fields.merge(formRules) { own, _ in own }
        spots.fields.merge(formRules) { own, _ in own }
        var prices = EntityRules()
        if ofHub { prices.kind = .reference }
        var readings = EntityRules()
        readings.kind = .event
        readings.priority = .bulk
        // Only the greedy app reaches this limit: the others have none, and the store is never full.
        readings.whenFull = .dropOldest
        var templates = EntityRules()
        templates.kind = .reference
        var areas = EntityRules()
        areas.fields = ["n": .counter, "a": .append]
        areas.onDeleted = .updateWins
        areas.fields.merge(formRules) { own, _ in own }
        var rooms = areas
        rooms.onDeleted = .manual
        rooms.refs = ["area": self.areas]
        rooms.seedFilter = SeedFilter(["area": "r0"])
        return RuleBook(
            [
                self.works: works, self.spots: spots, self.prices: prices, self.readings: readings,
                self.templates: templates, self.areas: areas, self.rooms: rooms,
            ], isStrict: true)
    }
}
