import SyncCore

/// One thing that an app asked for, and what it was told.
struct Operation {
    enum Answer {
        /// None yet, or never: the agent died first. It may have happened or not.
        case none
        case refused
        case acknowledged(MutationKey)
    }

    /// In the order in which they were asked for.
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
    /// The hub's value of `m` was known to the agent when it was made.
    var sawDisputed = false
    /// Members of `o` that others write, and that its app, which asks again with what it made of an older view, sets to what
    /// they were then.
    var undone: Set<String> = []
    var answer = Answer.none
    /// The older mutation that it went into.
    var into: MutationKey?
    /// The number of its app's acknowledgement among all that were given.
    var acknowledgement = 0
    /// Its place among all that the databases of agents have taken; `nil` before that. Who repeats a request that failed
    /// comes after what was asked for meanwhile.
    var place: Int?
    /// The same of the answer that it was taken back; 0 when it was not.
    var cancellation = 0
    /// The agent's database went back to before it, or to before it was taken back: nobody can know of that any more.
    var isLost = false
    /// The agent's database went back to some time after it: that database cannot know whether it has sent this since.
    var isDoubtful = false
    /// Times that the hub said "accepted" for it.
    var applied = 0
    /// A history of the hub that ended had it.
    var wasApplied = false

    /// Names the operation in every document that it touches.
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

    /// Some database has taken it, and its app does not know.
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
    /// With a key of its own the app repeats until it hears an answer; without one it asks once.
    var appKey: AppKey?
}

/// The entities of the simulated world, and the rules of both sides.
enum Entities {
    /// Every kind of field; a deletion wins.
    static let works = EntityName(trusted: "works")
    /// An update brings a deleted record back.
    static let spots = EntityName(trusted: "spots")
    /// The agents believe that they may change these; the hub refuses it.
    static let prices = EntityName(trusted: "prices")
    static let readings = EntityName(trusted: "readings")
    static let templates = EntityName(trusted: "templates")
    /// Parents, and their children: a room names its area. With the model of the rules a person decides about the deletion of a room.
    static let areas = EntityName(trusted: "areas")
    static let rooms = EntityName(trusted: "rooms")

    /// Entities that not every history has, so that the others stay what they were.
    struct Extras: Hashable, Sendable {
        /// Those of which a device receives only its share (``Shares``).
        var sharesOut: Bool
        /// Those whose schemas and forms change (``Visits``, ``Audits``).
        var changesSchemas: Bool
        /// The one whose documents devices drop (``Tasks``).
        var keeps: Bool
        /// Records that are shared out name parents that are shared out.
        var hasParents = false

        static let all = Extras(sharesOut: true, changesSchemas: true, keeps: true)
    }

    static func mirrored(_ extras: Extras) -> [EntityName] {
        var names = [areas, prices, rooms, spots, templates, works]
        if extras.sharesOut { names += Shares.entities }
        if extras.changesSchemas { names += [Visits.entity, Audits.entity, Audits.forms] }
        if extras.keeps { names.append(Tasks.entity) }
        return names.sorted()
    }
    /// What devices count in, and append to.
    static let counted = Set([areas, rooms, spots, works] + Shares.entities + [Visits.entity, Audits.entity, Tasks.entity])

    /// What stands in `parts` for a tag: elements that are told apart by their id.
    static func part(_ tag: String) -> JSON { ["id": .string(tag), "colour": .string("as \(tag)")] }

    static let app = AppName(trusted: "app")
    /// It asks for more than it may have open.
    static let greedy = AppName(trusted: "greedy")
    static let greedyQuota = 3

    static func rules(ofHub: Bool, _ extras: Extras) -> RuleBook {
        var book = rulesOfAll(ofHub: ofHub)
        if extras.sharesOut { book.entities.merge(Shares.rules(ofHub: ofHub)) { own, _ in own } }
        if extras.changesSchemas {
            book.entities[Visits.entity] = Visits.rules
            book.entities.merge(Audits.rules) { own, _ in own }
        }
        if extras.keeps {
            book.entities[Tasks.entity] = Tasks.rules(ofHub: ofHub)
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
        // Of the greedy app alone: the others have no limit, and the store is never full.
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
