import Foundation
import SyncCore
import SyncYAML
import Testing

struct EntitySettingsTests {
    @Test("Every key of an entity reaches its rule")
    func allKeys() throws {
        let book = try read(
            """
            strict_entities: true
            entities:
              work_orders:
                kind: record
                refs: { site_id: sites, parent: work_orders }
                priority: critical
                strategy: fields
                fields: { a: append, b: counter, c: set, d: manual, e: max, f: lww, g: min, h: merge, i: server, no: client }
                on_deleted: update_wins
                seed_filter: { assignee: $device, status: open }
                index: [due, "site_id, data.updated_at"]
                undo: true
                keep: { days: 90, when: { status: [done, cancelled], stage: [3], closed: [true] } }
                files: ahead
                retention: 30d
              readings: { kind: event, priority: bulk, ttl: 14d, when_full: drop_oldest, durability: relaxed, keep: 400d }
              sites: { kind: reference }
              plain:
              drafts: { strategy: client }
            """)
        var orders = EntityRules()
        orders.refs = ["site_id": name("sites"), "parent": name("work_orders")]
        orders.priority = .critical
        orders.fields = [
            "a": .append, "b": .counter, "c": .set, "d": .manual, "e": .max, "f": .lww, "g": .min, "h": .merge,
            "i": .server,
            "no": .client,
        ]
        orders.onDeleted = .updateWins
        orders.seedFilter = SeedFilter(["assignee": SeedFilter.device, "status": "open"])
        orders.declaredIndexes = [RecordIndex("due"), RecordIndex("site_id,data.updated_at")].compactMap { $0 }
        orders.declaredUndo = true
        orders.keep = KeepRule(days: 90, when: ["status": ["done", "cancelled"], "stage": ["3"], "closed": ["true"]])
        orders.declaredFiles = .ahead
        orders.retention = .seconds(30 * 86_400)
        var readings = EntityRules()
        readings.kind = .event
        readings.priority = .bulk
        readings.ttl = .seconds(14 * 86_400)
        readings.whenFull = .dropOldest
        readings.durability = .relaxed
        readings.keepEvents = .seconds(400 * 86_400)
        var sites = EntityRules()
        sites.kind = .reference
        var drafts = EntityRules()
        drafts.strategy = .client
        let expected = [
            name("work_orders"): orders, name("readings"): readings, name("sites"): sites, name("plain"): EntityRules(),
            name("drafts"): drafts,
        ]
        #expect(book == RuleBook(expected, isStrict: true))
        #expect(Set(orders.fields.values) == Set(FieldStrategy.allCases))
    }

    @Test(
        "An impossible entity is refused at the key that makes it so",
        arguments: [
            (
                "a: {kind: recrod}",
                "2:13: entities.a.kind: recrod is not accepted, expected record, event or reference (did you mean record?)"
            ),
            (
                "a: {fields: {x: appendd}}",
                "2:19: entities.a.fields.x: appendd is not accepted, expected lww, server, client, merge, append, counter, set, max, min or manual (did you mean append?)"
            ),
            (
                "a b: {}",
                "2:3: entities.\"a b\": \"a b\" is not accepted, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -"
            ),
            (
                "a: {refs: {x: 'b c'}}",
                "2:17: entities.a.refs.x: \"b c\" is not accepted, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -"
            ),
            (
                "a: {kind: event, fields: {x: lww}}",
                "2:28: entities.a.fields: a mapping is not accepted, expected it only for a record: events are never merged"
            ),
            (
                "a: {kind: event, on_deleted: manual}",
                "2:32: entities.a.on_deleted: manual is not accepted, expected it only for a record: events are never merged"
            ),
            (
                "a: {kind: event, files: ahead}",
                "2:27: entities.a.files: ahead is not accepted, expected it only for a record or reference data: no device reads events"
            ),
            (
                "a: {kind: event, seed_filter: {x: y}}",
                "2:33: entities.a.seed_filter: a mapping is not accepted, expected it only for a record: no device reads events"
            ),
            (
                "a: {kind: reference, seed_filter: {x: y}}",
                "2:37: entities.a.seed_filter: a mapping is not accepted, expected it only for a record: reference data comes first as a whole"
            ),
            (
                "a: {seed_filter: {x: ''}}",
                "2:24: entities.a.seed_filter.x: \"\" is not accepted, expected a text, or $device for the device that asks"
            ),
            (
                "a: {index: ['x,x']}",
                "2:15: entities.a.index[0]: \"x,x\" is not accepted, expected 1 to 4 fields with commas between, such as site,due"
            ),
            (
                "a: {index: [x, y, ' x']}",
                "2:14: entities.a.index: a list is not accepted, expected each index once"
            ),
            (
                "a: {kind: event, index: [x]}",
                "2:27: entities.a.index: a list is not accepted, expected it only for a record or reference data: no device reads events"
            ),
            (
                "a: {keep: 90}",
                "2:13: entities.a.keep: 90 is not accepted, expected a mapping with the keys days, when, or for events a duration from 7d to 3650d, such as 400d"
            ),
            (
                "a: {keep: 400d}",
                "2:13: entities.a.keep: 400d is not accepted, expected a mapping with the keys days, when: the hub removes only events by their age"
            ),
            (
                "a: {kind: reference, keep: 400d}",
                "2:30: entities.a.keep: 400d is not accepted, expected a mapping with the keys days, when: the hub removes only events by their age"
            ),
            (
                "a: {kind: event, keep: 6d}",
                "2:26: entities.a.keep: 6d is not accepted, expected a mapping with the keys days, when, or for events a duration from 7d to 3650d, such as 400d"
            ),
            (
                "a: {keep: {when: {status: [done]}}}",
                "2:13: entities.a.keep.days: is missing, expected a whole number from 7 to 3650"
            ),
            (
                "a: {keep: {days: 6}}",
                "2:20: entities.a.keep.days: 6 is not accepted, expected a whole number from 7 to 3650"
            ),
            (
                "a: {keep: {days: 90, when: {status: done}}}",
                "2:39: entities.a.keep.when.status: done is not accepted, expected a list"
            ),
            (
                "a: {keep: {days: 90, when: {status: []}}}",
                "2:39: entities.a.keep.when.status: a list is not accepted, expected at least one value"
            ),
            (
                "a: {keep: {days: 90, when: {status: [{x: 1}]}}}",
                "2:40: entities.a.keep.when.status[0]: a mapping is not accepted, expected a text, a number, true or false"
            ),
            (
                "a: {kind: event, keep: {days: 90}}",
                "2:26: entities.a.keep: a mapping is not accepted, expected a duration from 7d to 3650d, such as 400d: no device reads events, and the hub removes them by their age"
            ),
            (
                "a: {retention: 30d, keep: {days: 20}}",
                "2:36: entities.a.keep.days: 20 is not accepted, expected at least the 30 days of retention"
            ),
            (
                "a: {kind: event, strategy: lww}",
                "2:30: entities.a.strategy: lww is not accepted, expected it only for a record: events are never merged"
            ),
            (
                "a: {kind: reference, ttl: 1d}",
                "2:29: entities.a.ttl: 1d is not accepted, expected no such key for reference data, which has no mutations"
            ),
            (
                "a: {kind: reference, retention: 9d}",
                "2:35: entities.a.retention: 9d is not accepted, expected no such key for reference data, which has no mutations"
            ),
            (
                "a: {kind: reference, strategy: server}",
                "2:34: entities.a.strategy: server is not accepted, expected it only for a record: reference data is never changed here"
            ),
            (
                "a: {when_full: drop_oldest}",
                "2:18: entities.a.when_full: drop_oldest is not accepted, expected reject: only events may be dropped"
            ),
            (
                "a: {kind: reference, when_full: drop_oldest}",
                "2:35: entities.a.when_full: drop_oldest is not accepted, expected reject: only events may be dropped"
            ),
            (
                "a: {durability: relaxed}",
                "2:19: entities.a.durability: relaxed is not accepted, expected flash: only events may be relaxed"
            ),
            (
                "a: {strategy: lww, fields: {x: append}}",
                "2:30: entities.a.fields: a mapping is not accepted, expected it only with strategy: fields, which is lww"
            ),
            (
                "a: {priority: critical, ttl: 1d}",
                "2:32: entities.a.ttl: 1d is not accepted, expected no such key with priority: critical, which never expires"
            ),
            (
                "a: {kind: event, priority: critical, when_full: drop_oldest}",
                "2:51: entities.a.when_full: drop_oldest is not accepted, expected reject with priority: critical, which is never dropped"
            ),
            (
                "a: {retention: 6d}",
                "2:18: entities.a.retention: 6d is not accepted, expected a duration from 7d to 3650d, such as 500ms, 30s, 5m, 24h or 7d"
            ),
            (
                "a: {refs: {x: b}}\n  b: {kind: event}",
                "2:17: entities.a.refs.x: refers to b, an event, which is not kept, expected a record or a reference"
            ),
            (
                "a: {refs: {x: b}}\nstrict_entities: true",
                "2:17: entities.a.refs.x: refers to b, expected a configured entity, because strict_entities is true"
            ),
            (
                "c: {refs: {x: a}}\n  a: {refs: {y: b}}\n  b: {refs: {z: c}}\n  d: {refs: {w: a}}",
                "3:17: entities.a.refs.y: makes a circle: a -> b -> c -> a, expected parents that are not below their children"
            ),
            (
                "a: [1]",
                "2:6: entities.a: a list is not accepted, expected a mapping with the keys kind, refs, priority, strategy, fields, scope, write, critical_fields, max_len, on_deleted, seed_filter, index, undo, keep, files, retention, ttl, when_full, durability, coalesce, history, rank, schema, versions, accepts, app_schema, validate, form, complete, min_agent"
            ),
        ])
    func contradictions(entities: String, message: String) throws {
        let errors = #expect(throws: ConfigurationErrors.self) { try read("entities:\n  " + entities + "\n") }
        #expect(errors?.errors.map(\.description) == ["rules.yaml:" + message])
    }

    @Test(
        "Odd but sensible settings are accepted",
        arguments: [
            "a: {refs: {parent: a}}", "a: {refs: {x: b}}", "a: {kind: event, refs: {x: b}, priority: critical}",
            "a: {kind: reference, priority: critical}",
            "a: {strategy: lww, fields: {}}", "a: {refs: {x: b, y: b}}\n  b: {refs: {z: c}}\n  c: {kind: reference}",
            "a: {durability: flash, when_full: reject}", "a: {keep: {days: 7}}", "a: {kind: reference, keep: {days: 30, when: {}}}",
            "a: {retention: 30d, keep: {days: 30}}", "a: {kind: event, keep: 7d}", "a: {kind: event, keep: 9600h}",
        ])
    func sensible(entities: String) throws {
        _ = try read("entities:\n  " + entities + "\n")
    }

    // Fault: a key that is not set goes to agents as null, and an older agent refuses the whole configuration.
    @Test("Agents get the key keep where it is set, and in the form in which it is read")
    func written() throws {
        let book = try read("entities: { a: { keep: { days: 90, when: { status: [done] } } }, b: {} }")
        let entities = try #require(EntitySettings.written(book)["entities"]?.object)
        #expect(entities["a"]?.object?["keep"] == ["days": 90, "when": ["status": ["done"]]])
        #expect(entities["b"]?.object?["keep"] == nil)
        let text = JSON.object(EntitySettings.written(book)).json
        #expect(try read(text).entities == book.entities)
    }

    // Fault: an agent of before refuses a duration there, and with it the whole configuration.
    @Test("The time for which the hub keeps events is for the hub alone")
    func eventsOfHub() throws {
        let book = try read("entities: { log: { kind: event, keep: 400d } }")
        #expect(book.entities[name("log")]?.keepEvents == .seconds(400 * 86_400))
        let without = try read("entities: { log: { kind: event } }")
        #expect(JSON.object(EntitySettings.written(book)).json == JSON.object(EntitySettings.written(without)).json)
    }

    @Test("The versions of a schema reach the rules, and agents")
    func versions() throws {
        let book = try read(
            """
            entities:
              audits:
                schema: 2
                versions:
                  1: { schema: { properties: { site: true } } }
                  2: { up: [ { rename: { site: site_id } }, { move: { lat: position.lat } } ], down: [ { drop: site_id } ] }
                accepts: [1, 2]
                app_schema: 1
                fields: { position: merge }
            """)
        let audits = try #require(book.entities[name("audits")])
        let versions = try #require(audits.versions)
        #expect(versions.present == 2 && versions.accepts == [1, 2] && audits.appVersion == 1 && audits.schema == nil)
        #expect(versions.up(from: 1) == [.rename("site", to: "site_id"), .moveInto("lat", .init("position", "lat"))])
        #expect(versions.down(to: 1) == [.drop("site_id")])
        let text = JSON.object(EntitySettings.written(book)).json
        #expect(try read(text).entities == book.entities)
    }

    @Test(
        "Faults of versions are reported at their place",
        arguments: [
            ("a: {schema: 2}", "2:6: entities.a.versions: is missing, expected the versions up to 2, because schema is a number"),
            (
                "a: {versions: {1: {}}}",
                "2:17: entities.a.versions: has no effect, expected schema with the number of the present version"
            ),
            ("a: {schema: 3, versions: {1: {}, 3: {}}}", "2:28: entities.a.versions: has no version 2, expected each version from 1 to 3"),
            ("a: {schema: 1, versions: {1: {}, 2: {}}}", "2:39: entities.a.versions.2: is newer than the present version 1"),
            (
                "a: {schema: 1, versions: {1: {up: []}, x: {}}}",
                "2:45: entities.a.versions.x: is no version, expected a whole number from 1"
            ),
            (
                "a: {schema: 2, versions: {1: {}, 2: {up: [{renam: {a: b}}]}}}",
                "2:53: entities.a.versions.2.up.0.renam: is no step, expected default, drop, move, rename, unwrap, values, wrap; did you mean rename?"
            ),
            (
                "a: {schema: 2, versions: {1: {}, 2: {up: [{values: {s: {a: c, b: c}}}]}}}",
                "2:39: entities.a.versions.2: cannot be shown as version 1: the map of s gives c for two values, expected the steps back in the key down, or accepts without the versions before 2"
            ),
            (
                "a: {schema: 2, versions: {1: {}, 2: {up: [{move: {lat: p.lat}}]}}}",
                "2:44: entities.a.versions.2.up: moves a member of p, expected the rule merge for p, so that a change of one member leaves the others"
            ),
            (
                "a: {schema: 2, versions: {1: {}, 2: {}}, accepts: [1]}",
                "2:53: entities.a.accepts: lacks the present version 2"
            ),
        ])
    func wrongVersions(entities: String, message: String) throws {
        let errors = #expect(throws: ConfigurationErrors.self) { try read("entities:\n  " + entities + "\n") }
        #expect(errors?.errors.map(\.description) == ["rules.yaml:" + message])
    }

    @Test("The form of an entity reaches its rule, and agents")
    func forms() throws {
        let book = try read(
            """
            entities:
              forms: { kind: reference }
              audits:
                form: { entity: forms, ref: form_id, version: form_version, path: body }
                complete: { when: { status: [completed], closed: [true] } }
              visits: { kind: event, form: { entity: forms, ref: form_id } }
              tours: { form: { entity: forms, ref: form_id, answers: { entity: answers, ref: tour, question: q } } }
              answers: { index: [tour], refs: { tour: tours } }
            """)
        let audits = try #require(book.entities[name("audits")])
        #expect(audits.form == FormSettings(entity: name("forms"), ref: "form_id", version: "form_version", path: "body"))
        #expect(audits.complete == CompleteRule(when: ["status": ["completed"], "closed": ["true"]]))
        #expect(book.entities[name("visits")]?.form == FormSettings(entity: name("forms"), ref: "form_id", path: "schema"))
        #expect(
            book.entities[name("tours")]?.form?.answers
                == FormSettings.Answers(entity: name("answers"), ref: "tour", question: "q", value: "value"))
        let text = JSON.object(EntitySettings.written(book)).json
        #expect(try read(text).entities == book.entities)
    }

    private static let others = "\n  forms: {kind: reference}\n  log: {kind: event}\n  old: {kind: reference, keep: {days: 90}}"

    @Test(
        "A form that could judge nothing is refused",
        arguments: [
            ("a: {form: {ref: f}}", "2:13: entities.a.form.entity: is missing, expected the entity of the forms"),
            ("a: {form: {entity: forms}}", "2:13: entities.a.form.ref: is missing, expected the field that holds the id of the form"),
            ("a: {form: {entity: forms, reff: f}}", "2:29: entities.a.form.reff: unknown key (did you mean ref?)"),
            ("a: {form: {entity: forms, ref: ''}}", "2:34: entities.a.form.ref: \"\" is not accepted, expected a field name"),
            (
                "a: {form: {entity: log, ref: f}}",
                "2:22: entities.a.form.entity: refers to log, an event, which is not kept, expected a record or a reference"
            ),
            (
                "a: {form: {entity: old, ref: f}}",
                "2:22: entities.a.form.entity: refers to old, whose documents a device may drop (keep), expected an entity whose forms "
                    + "stay on the device"
            ),
            (
                "a: {form: {entity: a, ref: f}}",
                "2:22: entities.a.form.entity: refers to itself, expected another entity, whose records are the forms"
            ),
            (
                "a: {kind: reference, form: {entity: forms, ref: f}}",
                "2:30: entities.a.form: a mapping is not accepted, expected it only for a record or an event: reference data is not filled "
                    + "in here"
            ),
            (
                "a: {form: {entity: forms, ref: f, version: f}}",
                "2:13: entities.a.form: a mapping is not accepted, expected different fields for ref and version"
            ),
            (
                "a: {complete: {when: {status: [done]}}}",
                "2:17: entities.a.complete: a mapping is not accepted, expected it only beside form, which says what a complete record has"
            ),
            (
                "a: {complete: {when: {}}, form: {entity: forms, ref: f}}",
                "2:24: entities.a.complete.when: a mapping is not accepted, expected at least one field with its values"
            ),
            (
                "a: {complete: {when: {status: []}}, form: {entity: forms, ref: f}}",
                "2:33: entities.a.complete.when.status: a list is not accepted, expected at least one value"
            ),
            (
                "a: {form: {entity: forms, ref: f, answers: {entity: b, ref: a, question: q}}}",
                "2:55: entities.a.form.answers.entity: b is no record with an index by a, expected an entity of records with the key "
                    + "index: [a]"
            ),
            (
                "a: {form: {entity: forms, ref: f, answers: {entity: b, ref: a}}}",
                "2:46: entities.a.form.answers.question: is missing, expected entity, ref and question"
            ),
            (
                "a: {form: {entity: form, ref: f}}\n  strict_entities: {}\nstrict_entities: true",
                "2:22: entities.a.form.entity: refers to form (did you mean forms?), expected a configured entity, because strict_entities "
                    + "is true"
            ),
        ])
    func formMistakes(entities: String, message: String) throws {
        let parts = entities.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
        let text = "entities:\n  " + parts[0] + Self.others + (parts.count > 1 ? "\n" + parts[1] : "") + "\n"
        let errors = #expect(throws: ConfigurationErrors.self) { try read(text) }
        #expect(errors?.errors.map(\.description) == ["rules.yaml:" + message])
    }

    @Test("A file of entities is read from disk, and a missing one is one clear line")
    func files() throws {
        try withFolder { folder in
            let path = folder + "/rules.yaml"
            try Data("entities: { a: { kind: event } }\n".utf8).write(to: URL(fileURLWithPath: path))
            #expect(try EntitySettings.readEntities(file: path).entities.keys.map(\.text) == ["a"])
            let missing = #expect(throws: ConfigurationErrors.self) {
                try EntitySettings.readEntities(file: folder + "/none")
            }
            #expect(missing?.description == folder + "/none: no such file")
            try Data("entities: {}\nsync: {}\n".utf8).write(to: URL(fileURLWithPath: path))
            let unknown = #expect(throws: ConfigurationErrors.self) { try EntitySettings.readEntities(file: path) }
            #expect(unknown?.description == path + ":2:1: sync: unknown key, expected one of entities, strict_entities")
        }
    }

    @Test("A thousand entities that refer to one another are read, one more is refused")
    func many() throws {
        func text(_ count: Int) -> String {
            "entities:\n" + (0..<count).map { "  e\($0): {refs: {up: e\($0 + 1)}}\n" }.joined()
        }
        #expect(try read(text(1_000)).entities.count == 1_000)
        let errors = #expect(throws: ConfigurationErrors.self) { try read(text(1_001)) }
        #expect(errors?.errors.map(\.description) == ["rules.yaml:2:3: entities: 1001 keys, expected at most 1000"])
    }

    @discardableResult
    private func read(_ text: String) throws -> RuleBook {
        try EntitySettings.readEntities(ConfigurationFile(name: "rules.yaml", text: text))
    }

    private func name(_ text: String) -> EntityName { EntityName(trusted: text) }
}
