import SyncCore
import Testing

@testable import HubServer

/// PROTOCOL A16 and H2: a device reads what it has brought, and what a record shows that it receives now; nothing by a digest alone.
@Suite("Access to files", .eachEngine)
struct FileAccessTests {
    private let one = DeviceID.one
    private let two = DeviceID.two
    private let three = DeviceID(trusted: "gw-3")
    private let stand: FileStand
    private let content = Array("a picture of a pump".utf8)

    init() throws {
        stand = try FileStand()
        fleet.grant(one, "site", "s-1")
    }

    private var fleet: ScopeBench { stand.fleet }

    /// A record of the first device that shows the file, as an agent makes it.
    private func show(_ id: String = "a", field: String = "photo", _ value: JSON? = nil, uploadFirst: Bool = false) throws {
        if uploadFirst { try stand.upload(content, by: one) }
        let shown = try value ?? FileStand.placeholder(content)
        #expect(try fleet.push(one, .create, id, .object(["site": "s-1", field: shown])).code == "accepted")
        if !uploadFirst { try stand.upload(content, by: one) }
    }

    @Test("A record that a device receives makes its file readable, whichever came first; a grant that ends takes it back at once")
    func grants() throws {
        for (id, uploadFirst) in [("a", false), ("b", true)] {
            let stand = try FileAccessTests()
            try stand.show(id, uploadFirst: uploadFirst)
            #expect(try stand.stand.mayFetch(content, one) && !stand.stand.mayFetch(content, two))
            stand.fleet.grant(two, "site", "s-1")
            #expect(try stand.stand.mayFetch(content, two))
            stand.fleet.revoke(two, "site", "s-1")
            #expect(try !stand.stand.mayFetch(content, two))
        }
    }

    @Test("A record that leaves the share, is deleted, or does not name the file any more shows it no more")
    func ends() throws {
        fleet.grant(two, "site", "s-1")
        fleet.grant(one, "site", "s-2")
        try show()
        #expect(try stand.mayFetch(content, two))
        #expect(try fleet.push(one, .update, "a", ["site": "s-2"], base: stand.version("a")).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        #expect(try fleet.push(one, .update, "a", ["site": "s-1"], base: stand.version("a")).code == "accepted")
        #expect(try stand.mayFetch(content, two))
        #expect(try fleet.push(one, .update, "a", ["photo": "none"], base: stand.version("a")).code == "accepted")
        #expect(try !stand.mayFetch(content, two) && stand.links().all.isEmpty)
        try show("b")
        #expect(try stand.mayFetch(content, two))
        #expect(try fleet.push(one, .delete, "b", base: stand.version("b")).code == "accepted")
        #expect(try !stand.mayFetch(content, two) && stand.mayFetch(content, one))
    }

    @Test("One of two records that show a file is enough")
    func twoRecords() throws {
        fleet.grant(two, "site", "s-1")
        try show()
        #expect(try fleet.push(one, .create, "b", .object(["site": "s-1", "photo": FileStand.placeholder(content)])).code == "accepted")
        #expect(try fleet.push(one, .delete, "a", base: stand.version("a")).code == "accepted")
        #expect(try stand.mayFetch(content, two))
        #expect(try fleet.push(one, .delete, "b", base: stand.version("b")).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
    }

    @Test(
        "A digest that a device writes into its own record gives it nothing, before and after it has lost the file",
        arguments: [false, true]
    )
    func digestAlone(_ isUploaded: Bool) throws {
        fleet.grant(two, "site", "s-2")
        try show()
        let stolen = try FileStand.placeholder(content, isUploaded: isUploaded)
        #expect(try fleet.push(two, .create, "x", .object(["site": "s-2", "photo": stolen])).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        // Again, over its own word that the file is there; and by a deletion that keeps the document.
        let again: JSON = .object(["photo": .array([stolen, try FileStand.placeholder(content)])])
        #expect(try fleet.push(two, .update, "x", again, base: stand.version("x")).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        // Once it has received a record that shows the file, and lost it.
        fleet.grant(two, "site", "s-1")
        #expect(try stand.mayFetch(content, two))
        fleet.revoke(two, "site", "s-1")
        #expect(try fleet.push(two, .create, "y", .object(["site": "s-2", "photo": stolen])).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        // Its own upload of the same bytes is its right.
        try stand.upload(content, by: two)
        #expect(try stand.mayFetch(content, two))
    }

    @Test("A file that is whole in a list together with a foreign digest does not show the foreign one")
    func besideOwn() throws {
        fleet.grant(two, "site", "s-2")
        fleet.grant(three, "site", "s-2")
        try show()
        let own = Array("a picture of its own".utf8)
        let list: JSON = .array([try FileStand.placeholder(content, isUploaded: true), try FileStand.placeholder(own)])
        #expect(try fleet.push(two, .create, "x", .object(["site": "s-2", "photos": list])).code == "accepted")
        try stand.upload(own, by: two)
        #expect(try stand.mayFetch(own, three) && !stand.mayFetch(content, three) && !stand.mayFetch(content, two))
    }

    @Test("A device that may read a file and changes a record does not give the file to the device that had put its digest there")
    func deputy() throws {
        fleet.grant(one, "site", "s-2")
        fleet.grant(two, "site", "s-2")
        try show()
        let stolen = try FileStand.placeholder(content, isUploaded: true)
        #expect(try fleet.push(two, .create, "x", .object(["site": "s-2", "photos": .array([stolen])])).code == "accepted")
        #expect(try fleet.push(one, .update, "x", ["n": 1], base: stand.version("x")).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        let more: JSON = .object(["photos": .array([stolen, try FileStand.placeholder([7])])])
        #expect(try fleet.push(one, .update, "x", more, base: stand.version("x")).code == "accepted")
        try stand.upload([7], by: one)
        #expect(try !stand.mayFetch(content, two) && stand.mayFetch([7], two))
        // An upload of the same bytes for another record gives no right either.
        let planted: JSON = .object(["photos": .array([try FileStand.placeholder(content)])])
        #expect(try fleet.push(two, .create, "y", .object(["site": "s-2", "photos": .array([])])).code == "accepted")
        #expect(try fleet.push(two, .update, "y", planted, base: stand.version("y")).code == "accepted")
        #expect(
            try fleet.push(
                one, .update, "y", .object(["photos": .array([try FileStand.placeholder(content), 1])]), base: stand.version("y")
            ).code == "accepted")
        try stand.upload(content, by: one)
        #expect(try !stand.mayFetch(content, two))
        // The office leaves it as it is, too.
        try fleet.publish("x", ["site": "s-2", "photos": .array([stolen]), "n": 2])
        #expect(try !stand.mayFetch(content, two))
    }

    @Test("A device that may read a file can show it to others; so can the office")
    func handedOn() throws {
        fleet.grant(two, "site", "s-1", "s-3")
        fleet.grant(three, "site", "s-3")
        try show()
        let copy = try FileStand.placeholder(content, isUploaded: true)
        #expect(try !stand.mayFetch(content, three))
        #expect(try fleet.push(two, .create, "copy", .object(["site": "s-3", "photo": copy])).code == "accepted")
        #expect(try stand.mayFetch(content, three))
        #expect(try fleet.push(two, .delete, "copy", base: stand.version("copy")).code == "accepted")
        #expect(try !stand.mayFetch(content, three))
        try fleet.publish("office", ["site": "s-3", "photo": copy])
        #expect(try stand.mayFetch(content, three))
        try fleet.publish("office", ["site": "s-3"])
        #expect(try !stand.mayFetch(content, three))
    }

    @Test("A device that writes a digest before its bytes are there hands nothing on, and keeps nothing of a record that it loses")
    func namedAhead() throws {
        fleet.grant(two, "site", "s-1", "s-2")
        fleet.grant(three, "site", "s-2")
        let shown = try FileStand.placeholder(content)
        try fleet.publish("office", ["site": "s-1", "photo": shown])
        #expect(try fleet.push(two, .create, "copy", .object(["site": "s-2", "photo": shown])).code == "accepted")
        fleet.revoke(two, "site", "s-1")
        try stand.upload(content, by: one, for: "office")
        #expect(try stand.mayFetch(content, one) && !stand.mayFetch(content, two) && !stand.mayFetch(content, three))
        #expect(try Placeholder.waiting(in: #require(stand.hub.record("work_orders/copy")?.data)).count == 1)
        // Now it could read the file, and takes the digest out and puts it back.
        fleet.grant(two, "site", "s-1")
        #expect(try stand.mayFetch(content, two) && !stand.mayFetch(content, three))
        #expect(try fleet.push(two, .update, "copy", ["photo": 0], base: stand.version("copy")).code == "accepted")
        #expect(try fleet.push(two, .update, "copy", .object(["photo": shown]), base: stand.version("copy")).code == "accepted")
        #expect(try stand.mayFetch(content, three))
    }

    @Test("A record that waits for a file shows it once the device that has put it there changes the record and may read the file")
    func vouchedLater() throws {
        for device in [one, two, three] { fleet.grant(device, "site", "s-2") }
        fleet.grant(two, "site", "s-1")
        for (id, isUploaded) in [("copy", false), ("told", true)] {
            let shown = try FileStand.placeholder(content, isUploaded: isUploaded)
            #expect(try fleet.push(two, .create, id, .object(["site": "s-2", "photo": shown])).code == "accepted")
        }
        func isWaiting() throws -> Bool { try !Placeholder.waiting(in: #require(stand.hub.record("work_orders/copy")?.data)).isEmpty }
        // It will not bring the file: the hub has it, as far as this device may know.
        try show(uploadFirst: true)
        #expect(try stand.mayFetch(content, two) && !stand.mayFetch(content, three) && isWaiting())
        // Another device that may read the file says nothing about it by a change of something else.
        #expect(try fleet.push(one, .update, "copy", ["n": 1], base: stand.version("copy")).code == "accepted")
        #expect(try !stand.mayFetch(content, three) && isWaiting())
        // A device waits for nothing where it has written itself that the file is there.
        #expect(try fleet.push(two, .update, "told", ["n": 1], base: stand.version("told")).code == "accepted")
        #expect(try !stand.mayFetch(content, three))
        // While it may not read the file, its changes say nothing either.
        fleet.revoke(two, "site", "s-1")
        #expect(try fleet.push(two, .update, "copy", ["n": 2], base: stand.version("copy")).code == "accepted")
        #expect(try !stand.mayFetch(content, three) && isWaiting())
        fleet.grant(two, "site", "s-1")
        #expect(try fleet.push(two, .update, "copy", ["n": 3], base: stand.version("copy")).code == "accepted")
        #expect(try stand.mayFetch(content, three) && !isWaiting())
    }

    // Fault: a device named a file before it could read it, and did not bring it, because it was told that the hub has it. Its records
    // waited for ever.
    @Test("The records that wait for a file of their device show it once the device offers it and need not bring it")
    func offered() throws {
        for device in [one, two, three] { fleet.grant(device, "site", "s-2") }
        let shown = try FileStand.placeholder(content)
        for (id, device) in [("copy", two), ("second", two), ("theirs", three)] {
            #expect(try fleet.push(device, .create, id, .object(["site": "s-2", "photo": shown])).code == "accepted")
        }
        try show(uploadFirst: true)
        // While the device may not read the file, it has to bring it.
        #expect(try stand.offer(content, by: two).status == 404 && stand.isWaiting("copy"))
        fleet.grant(two, "site", "s-1")
        // A question is no offer, and the offer of another device concerns the records of that one.
        #expect(try stand.mayFetch(content, two) && stand.isWaiting("copy"))
        #expect(try stand.offer(content, by: one).status == 200 && stand.isWaiting("copy") && !stand.mayFetch(content, three))
        #expect(try stand.offer(content, by: two).status == 200)
        #expect(try !stand.isWaiting("copy") && !stand.isWaiting("second") && stand.mayFetch(content, three))
        #expect(try stand.isWaiting("theirs") && stand.links().shown.map(\.record).sorted() == Self.offeredRecords)
        // It is a change of the record like any other, and the next offer changes nothing.
        let versions = try (stand.version("copy"), stand.version("second"))
        #expect(versions.0 == versions.1 - 1)
        #expect(try stand.offer(content, by: two).status == 200 && stand.hub.head == versions.1)
        // What the device has shown stays shown, and it reads it there as well.
        fleet.revoke(two, "site", "s-1")
        #expect(try stand.mayFetch(content, two) && stand.mayFetch(content, three))
        // Now the third device may read the file, in the records of the second one.
        #expect(try stand.offer(content, by: three).status == 200 && !stand.isWaiting("theirs"))
    }

    // Fault: a record of the office went on to say that its file was to come, unless the upload named the record.
    @Test("A record of the office says that its file has come, whichever device brings it and whichever came first")
    func ofOffice() throws {
        fleet.grant(two, "site", "s-2")
        let shown = try FileStand.placeholder(content)
        try fleet.publish("ahead", ["site": "s-2", "photos": .array([shown, 1]), "n": 1])
        // Another device has named the file there, and in a record of its own: neither shows it.
        #expect(try fleet.push(two, .create, "x", .object(["site": "s-2", "photo": shown])).code == "accepted")
        #expect(try stand.isWaiting("ahead") && stand.isWaiting("x") && !stand.mayFetch(content, two))
        let head = stand.hub.head
        // The device that brings it does not receive the record.
        try stand.upload(content, by: one)
        #expect(try !stand.isWaiting("ahead") && stand.mayFetch(content, two) && stand.version("ahead") == head + 1)
        // The second device may read the file now, and has not said so in its own record.
        #expect(try stand.isWaiting("x") && stand.hub.head == head + 1)

        // The bytes are here: one change says all of it, and a second publication of what the office knows changes nothing back.
        for (number, id) in ["late", "late", "ahead"].enumerated() {
            try fleet.publish(id, ["site": "s-2", "photos": .array([shown, 1]), "n": .int(number)])
            #expect(try !stand.isWaiting(id) && stand.version(id) == head + 2 + Int64(number))
        }
        // Nothing waits for the next upload of the same bytes, except the record of the second device.
        #expect(try stand.waits() == ["work_orders/x"])
        let last = stand.hub.head
        try stand.upload(content, by: three)
        #expect(stand.hub.head == last)
    }

    @Test("The office does not tell a device by a record in which that device has put a digest")
    func ofOfficeUnshown() throws {
        fleet.grant(two, "site", "s-2")
        let shown = try FileStand.placeholder(content)
        #expect(try fleet.push(two, .create, "x", .object(["site": "s-2", "photo": shown])).code == "accepted")
        try fleet.publish("x", ["site": "s-2", "photo": shown, "n": 1])
        try stand.upload(content, by: one)
        #expect(try stand.isWaiting("x") && !stand.mayFetch(content, two))
        try fleet.publish("x", ["site": "s-2", "photo": shown, "n": 2])
        #expect(try stand.isWaiting("x") && !stand.mayFetch(content, two))
        // Once the office takes it out and puts it in, it is the word of the office.
        try fleet.publish("x", ["site": "s-2", "n": 3])
        try fleet.publish("x", ["site": "s-2", "photo": shown, "n": 4])
        #expect(try !stand.isWaiting("x") && stand.mayFetch(content, two))
    }

    @Test("A hub that shares nothing out tells of the files of the office as well")
    func ofOfficeUnshared() throws {
        let stand = try FileStand(rules: RuleBook())
        let shown = try FileStand.placeholder(content)
        try stand.fleet.publish("ahead", ["photo": shown])
        try stand.upload(content, by: one)
        try stand.fleet.publish("late", ["photo": shown])
        #expect(try !stand.isWaiting("ahead") && !stand.isWaiting("late") && stand.waits().isEmpty)
    }

    private static let offeredRecords = ["work_orders/a", "work_orders/copy", "work_orders/second"]

    @Test("An offer gives no device a file that the offering one may not read, whatever it has written before")
    func offeredInVain() throws {
        fleet.grant(two, "site", "s-2")
        fleet.grant(three, "site", "s-2")
        try show()
        for (id, isUploaded) in [("x", false), ("told", true)] {
            let stolen = try FileStand.placeholder(content, isUploaded: isUploaded)
            #expect(try fleet.push(two, .create, id, .object(["site": "s-2", "photo": stolen])).code == "accepted")
        }
        #expect(try stand.offer(content, by: two).status == 404)
        // A length that is none offers nothing else.
        #expect(stand.ask(try FileStand.digest(content), by: two, "HEAD", [(Tus.length, "-1")]).status == 404)
        // Another device that may read the file, and receives the record, does not give it away.
        fleet.grant(one, "site", "s-2")
        #expect(try stand.offer(content, by: one).status == 200)
        #expect(try !stand.mayFetch(content, two) && !stand.mayFetch(content, three) && stand.isWaiting("x"))
        // A GET is no offer.
        fleet.grant(two, "site", "s-1")
        #expect(stand.ask(try FileStand.digest(content), by: two, "GET", [(Tus.length, "\(content.count)")]).status == 200)
        #expect(try stand.isWaiting("x") && !stand.mayFetch(content, three))
    }

    @Test("An event that waits for a file of its device says once that it has come, and shows it to no device")
    func offeredForEvent() throws {
        let data: JSON = .object(["device": "gw-2", "photo": try FileStand.placeholder(content)])
        #expect(try fleet.push(two, .create, "e", data, entity: "readings").code == "accepted")
        try show()
        fleet.grant(two, "site", "s-1")
        for _ in 0..<2 {
            #expect(try stand.offer(content, by: two).status == 200)
            let event = try #require(try stand.hub.record("readings/e"))
            #expect(try event.version == stand.hub.head && Placeholder.waiting(in: #require(event.data)).isEmpty)
        }
        fleet.revoke(two, "site", "s-1")
        #expect(try !stand.mayFetch(content, two))
    }

    // Fault: the second record went on to say that the file was to come, because another device had written its list last.
    @Test("An upload shows in every record in which its device has put the file, also where another device has changed the list since")
    func listChangedSince() throws {
        fleet.grant(two, "site", "s-1")
        let shown = try FileStand.placeholder(content)
        for id in ["a", "b"] {
            #expect(try fleet.push(one, .create, id, .object(["site": "s-1", "photo": .array([shown])])).code == "accepted")
        }
        let longer: JSON = .object(["photo": .array([shown, 1])])
        #expect(try fleet.push(two, .update, "b", longer, base: stand.version("b")).code == "accepted")
        #expect(try stand.isWaiting("a") && stand.isWaiting("b"))
        try stand.upload(content, by: one, for: "a")
        #expect(try !stand.isWaiting("a") && !stand.isWaiting("b") && stand.mayFetch(content, two))
    }

    @Test("A record shows a file whose own device brings it later, also where that device wrote before that it had arrived")
    func writtenAsArrived() throws {
        fleet.grant(two, "site", "s-1")
        let shown = try FileStand.placeholder(content, isUploaded: true)
        for (number, value) in [shown, .array([["shot": shown]])].enumerated() {
            #expect(try fleet.push(one, .create, "a-\(number)", .object(["site": "s-1", "photo": value])).code == "accepted")
            #expect(try !stand.mayFetch(content, two))
        }
        #expect(try fleet.push(two, .create, "x", .object(["assignee": "gw-3", "photo": shown])).code != "accepted")
        // Another device's upload shows nothing of it.
        try stand.upload(content, by: three)
        #expect(try !stand.mayFetch(content, two))
        try stand.upload(content, by: one)
        #expect(try stand.links().shown.count == 2 && stand.mayFetch(content, two))
    }

    @Test("A placeholder shows its file at any depth")
    func nested() throws {
        fleet.grant(two, "site", "s-1")
        let shots: JSON = ["shots": .array([try FileStand.placeholder(content, isUploaded: true)])]
        let deep: JSON = .array([["rooms": .array([shots])]])
        try show(field: "findings", deep, uploadFirst: true)
        #expect(try stand.mayFetch(content, two))
    }

    @Test("An entity without scopes shows its files to every device, and events show theirs to none")
    func kinds() throws {
        try stand.upload(content, by: one)
        let shown = try FileStand.placeholder(content)
        fleet.grant(two, "device", "gw-1")
        #expect(try fleet.push(one, .create, "e", .object(["device": "gw-1", "photo": shown]), entity: "readings").code == "accepted")
        #expect(try !stand.mayFetch(content, two))
        #expect(try fleet.push(one, .create, "n", .object(["photo": shown]), entity: "notes").code == "accepted")
        #expect(try stand.mayFetch(content, two) && stand.mayFetch(content, three))
    }

    @Test("A hub that shares nothing out hands a file to every device once a record shows it")
    func unshared() throws {
        let stand = try FileStand(rules: RuleBook())
        try stand.upload(content, by: one)
        #expect(try !stand.mayFetch(content, two))
        #expect(try stand.fleet.push(one, .create, "a", .object(["photo": FileStand.placeholder(content)])).code == "accepted")
        #expect(try stand.mayFetch(content, two))
        #expect(try stand.fleet.push(one, .delete, "a", base: stand.version("a")).code == "accepted")
        #expect(try !stand.mayFetch(content, two))
    }

    @Test("A record that comes back from its deletion shows again what it showed")
    func restored() throws {
        var rules = ScopeBench.rules
        rules.entities[ScopeBench.orders]?.onDeleted = .updateWins
        let stand = try FileStand(rules: rules)
        for device in [one, two, three] { stand.fleet.grant(device, "site", "s-1") }
        #expect(
            try stand.fleet.push(one, .create, "a", .object(["site": "s-1", "photo": FileStand.placeholder(content)])).code == "accepted")
        try stand.upload(content, by: one)
        let version = try stand.version("a")
        #expect(try stand.fleet.push(one, .delete, "a", base: version).code == "accepted")
        #expect(try !stand.mayFetch(content, three))
        #expect(try stand.fleet.push(two, .update, "a", ["n": 1], base: version).code == "accepted")
        #expect(try stand.hub.record("work_orders/a")?.data?["photo"] != nil)
        #expect(try stand.mayFetch(content, three))
        // When the tombstone is forgotten, its links are, too.
        #expect(try stand.fleet.push(one, .delete, "a", base: stand.version("a")).code == "accepted")
        #expect(try stand.links().all.count == 1)
        stand.fleet.bench.now = stand.fleet.bench.now.advanced(by: .seconds(200 * 86_400))
        try stand.hub.housekeep(at: stand.fleet.bench.now)
        #expect(try stand.links().all.isEmpty && stand.scan().isEmpty)
    }

    @Test("A file of others and one that never was have one answer, and the database does the same for both")
    func alike() throws {
        let log = WorkLog()
        let stand = try FileStand(at: .shared(CountedPlace(inner: try Engine.current.newPlace().database, log: log)))
        stand.fleet.grant(one, "site", "s-1")
        stand.fleet.grant(two, "site", "s-2", "s-3")
        #expect(
            try stand.fleet.push(one, .create, "a", .object(["site": "s-1", "photo": FileStand.placeholder(content)])).code == "accepted")
        try stand.upload(content, by: one)
        for (method, fields) in [("HEAD", []), ("HEAD", [(Tus.length, "19")]), ("GET", [])] {
            _ = log.take()
            let theirs = stand.ask(try FileStand.digest(content), by: two, method, fields)
            let seen = log.take()
            let nobodys = stand.ask(try FileStand.digest([1]), by: two, method, fields)
            #expect(theirs.status == 404 && theirs.headers == nobodys.headers && theirs.body == nobodys.body)
            #expect(seen == log.take())
        }
        // An offer of a file that the device may read costs the same with and without a record of others that waits for it.
        try stand.offer(content, by: one)
        _ = log.take()
        #expect(try stand.offer(content, by: one).status == 200)
        let seen = log.take()
        #expect(
            try stand.fleet.push(two, .create, "b", .object(["site": "s-2", "photo": FileStand.placeholder(content)])).code == "accepted")
        try stand.offer(content, by: one)
        _ = log.take()
        #expect(try stand.offer(content, by: one).status == 200 && seen == log.take())
    }

    // Fault: the type was that of the first upload, and told the device that another one had brought the file before.
    @Test("The answer to a device that has brought a file is the same whether another device has brought it before")
    func typeOfFirstUpload() throws {
        try stand.upload(content, by: one)
        let digest = try FileStand.digest(content)
        let alone = stand.ask(digest, by: one)
        let other = Array("a file of both".utf8)
        try stand.upload(other, by: two, type: "image/png")
        try stand.upload(other, by: one)
        let both = stand.ask(try FileStand.digest(other), by: one)
        #expect(alone.status == 200 && alone.body == content && both.status == 200 && both.body == other)
        #expect(alone.headers["Content-Type"] == "application/octet-stream")
        #expect(both.headers["Content-Type"] == "application/octet-stream")
    }

    @Test("The answer has the tag, the digest and the ranges of the file")
    func answers() throws {
        try show()
        let digest = try FileStand.digest(content)
        let tag = "\"\(digest)\""
        let all = stand.ask(digest, by: one)
        #expect(all.status == 200 && all.body == content && all.headers["ETag"] == tag && all.headers["Accept-Ranges"] == "bytes")
        #expect(all.headers[Tus.reprDigest] == digest.field && all.headers["Content-Type"] == "application/octet-stream")
        let part = stand.ask(digest, by: one, "GET", [("Range", "bytes=2-4"), ("If-Range", tag)])
        #expect(part.status == 206 && part.body == Array(content[2..<5]) && part.headers["Content-Range"] == "bytes 2-4/\(content.count)")
        #expect(part.headers[Tus.reprDigest] == digest.field && part.headers["ETag"] == tag)
        let beyond = stand.ask(digest, by: one, "GET", [("Range", "bytes=500-")])
        #expect(beyond.status == 416 && beyond.headers["Content-Range"] == "bytes */\(content.count)")
        #expect(String(decoding: beyond.body, as: UTF8.self).contains("malformed"))
        let same = stand.ask(digest, by: one, "HEAD", [("If-None-Match", tag)])
        #expect(same.status == 304 && same.headers["ETag"] == tag && same.body.isEmpty)
        // A condition must not show a device which files are there.
        #expect(stand.ask(digest, by: two, "GET", [("If-None-Match", "*")]).status == 404)
        #expect(stand.ask(digest, by: two, "GET", [("Range", "bytes=500-")]).status == 404)
    }
}
