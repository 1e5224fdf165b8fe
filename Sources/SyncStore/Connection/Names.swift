import SyncCore
import SyncSQLite

/// The small numbers that rows use for entities and apps, all in memory.
struct Names {
    /// Largest number of names. Names are never forgotten, and any app may make one up when the rule book is not strict.
    static let limit = 1_000

    private(set) var entities: [EntityName: Int64] = [:]
    private(set) var entityNames: [Int64: EntityName] = [:]
    private(set) var apps: [AppName: Int64] = [:]

    static func load(from database: Database) throws(StoreError) -> Names {
        var names = Names()
        try database.each("SELECT eid, name FROM entity") { row throws(StoreError) in
            let name = EntityName(trusted: row.text(1))
            names.entities[name] = row.int(0)
            names.entityNames[row.int(0)] = name
        }
        try database.each("SELECT aid, name FROM app") { row throws(StoreError) in
            names.apps[AppName(trusted: row.text(1))] = row.int(0)
        }
        return names
    }

    var hasRoomForEntity: Bool { entities.count < Self.limit }

    func entity(_ eid: Int64) -> EntityName {
        entityNames[eid] ?? EntityName(trusted: "?")
    }

    mutating func entity(_ name: EntityName, in database: Database) throws(StoreError) -> Int64 {
        if let eid = entities[name] { return eid }
        let eid = (entities.values.max() ?? 0) + 1
        try database.run("INSERT INTO entity (eid, name) VALUES (?, ?)", .int(eid), .text(name.text))
        entities[name] = eid
        entityNames[eid] = name
        return eid
    }

    mutating func app(_ name: AppName, in database: Database) throws(StoreError) -> Int64 {
        if let aid = apps[name] { return aid }
        let aid = (apps.values.max() ?? 0) + 1
        try database.run("INSERT INTO app (aid, name) VALUES (?, ?)", .int(aid), .text(name.text))
        apps[name] = aid
        return aid
    }
}
