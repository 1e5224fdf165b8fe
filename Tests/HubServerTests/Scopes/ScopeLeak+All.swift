import HubServer
import SyncCore

extension ScopeLeak {
    private static let tokens = ScopeConformanceTests.tokens

    static let all = grants + rights + records + names + shares + cursors + moves + files

    private static let grants = [
        ScopeLeak(
            what: "does not tell grants of records", noticedBy: "scope-grant",
            spoil: first("/v1/sync/hello") { hello, _ in hello["scopes"] = [:] }),
        ScopeLeak(
            what: "tells every device the role of the office", noticedBy: "scope-hello",
            spoil: first("/v1/sync/hello") { hello, _ in hello["roles"] = ["office"] }),
        ScopeLeak(
            what: "lets every device take grants back", noticedBy: "scope-grant-right",
            alter: asking(as: tokens.office) { request, _ in
                mutations(request).contains { $0["entity"] == "conformance_grants" && $0["action"] == "delete" }
            }),
        ScopeLeak(
            what: "has one mark for all scopes", noticedBy: "scope-mark",
            spoil: { _, response, _ in if response.headers["Sync-Scopes"] != nil { response.headers["Sync-Scopes"] = "all" } }),
    ]

    // MARK: Pushes

    private static let rights = [
        ScopeLeak(
            what: "refuses a device its own scope", noticedBy: "scope-create",
            spoil: verdicts { mutation, result, _ in
                if mutation["record_id"]?.text == mine, mutation["action"] == "create" { refuse(&result) }
            }),
        ScopeLeak(
            what: "lets every device write everywhere", noticedBy: "scope-create-elsewhere", ablations: Ablations([.rightsIgnored])),
        ScopeLeak(
            what: "puts a record without a scope into the scope of its device", noticedBy: "scope-create-nowhere",
            alter: rewriting { mutation in
                guard mutation["entity"] == "conformance_orders", mutation["action"] == "create", var data = mutation["data"]?.object,
                    data["site"] == nil
                else { return }
                data["site"] = .string(north)
                mutation["data"] = .object(data)
            }),
        ScopeLeak(
            what: "lets a device give a record away", noticedBy: "scope-move-out",
            alter: asking(as: tokens.office) { request, _ in
                mutations(request).contains { $0["record_id"]?.text == mine && $0["data"]?.object?["site"]?.text == south }
            }),
        ScopeLeak(
            what: "leaves a field without a right out, and says accepted", noticedBy: "scope-field-right",
            alter: rewriting { mutation in
                guard var data = mutation["data"]?.object, data["price"] != nil else { return }
                data["price"] = nil
                mutation["data"] = .object(data)
            }),
        ScopeLeak(
            what: "refuses a guarded field that does not change", noticedBy: "scope-field-repeated",
            spoil: verdicts { mutation, result, _ in if mutation["data"]?.object?["price"] != nil { refuse(&result) } }),
        ScopeLeak(
            what: "shows the record to a late change", noticedBy: "scope-old-base",
            spoil: verdicts { mutation, result, _ in
                if mutation["data"]?.object?["note"] == "late", isForbidden(result) { result["current"] = state }
            }),
        ScopeLeak(
            what: "shows a record that was handed back", noticedBy: "scope-hand-back",
            spoil: verdicts { mutation, result, _ in
                if mutation["data"]?.object?["site"] == [.string(south)], result["status"] == "accepted" { result["record"] = state }
            }),
    ]

    private static func isOfForeign(_ mutation: JSONObject, _ action: String) -> Bool {
        mutation["record_id"]?.text == foreign && mutation["action"]?.text == action
    }

    /// Leaks of a hub that lets changes of records without a trace wait, because its history is new.
    static let ofNewHistory = [
        ScopeLeak(
            what: "forbids an update of a record of others, and lets one of what never was wait", noticedBy: "scope-update-alike",
            spoil: verdicts { mutation, result, _ in if isOfForeign(mutation, "update") { refuse(&result) } }),
        ScopeLeak(
            what: "forbids a deletion of a record of others, and lets one of what never was wait", noticedBy: "scope-delete-alike",
            spoil: verdicts { mutation, result, _ in if isOfForeign(mutation, "delete") { refuse(&result) } }),
        ScopeLeak(
            what: "names the waiting member to the other members of a list", noticedBy: "scope-list-forbidden",
            spoil: verdicts { _, result, _ in if code(result) == "blocked-by-earlier" { say("\(foreign) waits", in: &result) } }),
        ScopeLeak(
            what: "lets every device update, and says that the change waits", noticedBy: "scope-update-foreign",
            alter: asking(as: tokens.second) { request, _ in
                mutations(request).contains { isOfForeign($0, "update") && $0["data"]?.object?["note"] == "stolen" }
            },
            spoil: { request, response, _ in
                guard request.isOf(tokens.second), mutations(request).contains(where: { $0["data"]?.object?["note"] == "stolen" }),
                    // An answer to a push is JSON.
                    var object = (try? JSONReader.read(response.body))?.object
                else { return }
                ConformanceTests.each("results", in: &object) { letWait(&$0) }
                response.body = JSON.object(object).bytes
            }),
        ScopeLeak(
            what: "lets every device delete", noticedBy: "scope-delete-foreign",
            alter: asking(as: tokens.second) { request, _ in mutations(request).contains { isOfForeign($0, "delete") } }),
        ScopeLeak(
            what: "lets a create in a scope of others wait", noticedBy: "scope-create-elsewhere",
            spoil: verdicts { mutation, result, _ in
                if mutation["action"] == "create", mutation["data"]?.object?["site"]?.text == south { letWait(&result) }
            }),
    ]

    private static func letWait(_ result: inout JSONObject) {
        refuse(&result, "dependency-missing", "it is not here yet")
        result["status"] = "retry"
    }

    private static let records = [
        ScopeLeak(
            what: "lets an update of a record of others wait, though its history is not new", noticedBy: "scope-update-foreign",
            spoil: verdicts { mutation, result, _ in if isOfForeign(mutation, "update") { letWait(&result) } }),
        ScopeLeak(
            what: "lets a list with a record of others wait, though its history is not new", noticedBy: "scope-list-forbidden",
            spoil: verdicts { mutation, result, _ in if mutation["group"] != nil { letWait(&result) } }),
        ScopeLeak(
            what: "shows the record to a forbidden update", noticedBy: "scope-update-foreign",
            spoil: verdicts { mutation, result, _ in
                if isOfForeign(mutation, "update"), isForbidden(result) { result["current"] = state }
            }),
        ScopeLeak(
            what: "lets every device delete", noticedBy: "scope-delete-foreign",
            alter: asking(as: tokens.second) { request, _ in mutations(request).contains { isOfForeign($0, "delete") } }),
        ScopeLeak(
            what: "shows the record to a create with its id", noticedBy: "scope-create-taken",
            spoil: verdicts { mutation, result, _ in
                if isOfForeign(mutation, "create"), isForbidden(result) { result["current"] = state }
            }),
        ScopeLeak(
            what: "says that a record is of others", noticedBy: "scope-update-alike",
            spoil: verdicts { mutation, result, _ in if isOfForeign(mutation, "update") { say("it is of another site", in: &result) } }),
        ScopeLeak(
            what: "answers a deletion of what never was as it should, and knows what is of others", noticedBy: "scope-delete-alike",
            spoil: verdicts { mutation, result, _ in if isOfForeign(mutation, "delete") { say("it is of another site", in: &result) } }),
        ScopeLeak(
            what: "names the forbidden member to the other members of a list", noticedBy: "scope-list-forbidden",
            spoil: verdicts { _, result, _ in if code(result) == "group-rejected" { say("\(foreign) was rejected", in: &result) } }),
        ScopeLeak(
            what: "says in a list that a record is of others", noticedBy: "scope-list-alike",
            spoil: verdicts { mutation, result, _ in
                if isOfForeign(mutation, "update"), mutation["group"] != nil { say("it is of another site", in: &result) }
            }),
    ]

    private static let names = [
        ScopeLeak(
            what: "shows a record that has left the share to a repeat", noticedBy: "scope-repeat",
            spoil: verdicts { _, result, _ in
                if result["status"] == "duplicate", result["current"]?.isNull ?? true { result["current"] = state }
            }),
        ScopeLeak(
            what: "shows a record of others to a key that was used before", noticedBy: "scope-key-reused",
            spoil: verdicts { mutation, result, _ in
                if mutation["record_id"]?.text == foreign, code(result) == "idempotency-mismatch" { result["current"] = state }
            }),
        ScopeLeak(
            what: "knows the keys of all devices", noticedBy: "scope-known",
            spoil: { request, response, memory in
                let keys = memory.keys
                let change = first("/v1/sync/known") { known, _ in
                    known["unknown"] = .array((known["unknown"]?.array ?? []).filter { !keys.contains($0.text ?? "") })
                }
                change(request, &response, &memory)
            }),
        ScopeLeak(
            what: "forbids to depend on a change of others", noticedBy: "scope-depends",
            spoil: verdicts { mutation, result, memory in
                let parents = (mutation["depends_on"]?.array ?? []).compactMap(\.text)
                if parents.contains(where: memory.keys.contains) { refuse(&result) }
            }),
        ScopeLeak(
            what: "takes the keys of all devices for one", noticedBy: "scope-key-foreign",
            spoil: verdicts { mutation, result, memory in
                if memory.keys.contains(mutation["idempotency_key"]?.text ?? "") { refuse(&result, "idempotency-mismatch") }
            }),
        ScopeLeak(
            what: "forbids a parent of others", noticedBy: "scope-parent",
            spoil: verdicts { mutation, result, _ in if mutation["data"]?.object?["parent"]?.text == foreign { refuse(&result) } }),
    ]

    // MARK: Pages

    private static let listing = "/v1/sync/snapshot"

    private static let shares = [
        ScopeLeak(
            what: "lists all records", noticedBy: "scope-listing",
            spoil: first(listing, where: { !$0.query.contains("filter") && !$0.query.contains("bucket") && !$0.query.contains("after") }) {
                page, _ in
                if page["entity"] == "conformance_orders" { add(record, to: "records", of: &page) }
            }),
        ScopeLeak(
            what: "does not know that the id of a device is its scope", noticedBy: "scope-own-id",
            spoil: first(listing) { page, _ in
                page["records"] = .array(
                    (page["records"]?.array ?? []).filter { $0.object?["data"]?.object?["site"]?.text != DeviceID.one.text })
            }),
        ScopeLeak(
            what: "seeds all records", noticedBy: "scope-seed",
            spoil: first(listing, where: { $0.query.contains("filter=seed") }) { page, _ in add(record, to: "records", of: &page) }),
        ScopeLeak(
            what: "lists the buckets of all records", noticedBy: "scope-buckets",
            spoil: first(listing, where: { $0.query.contains("bucket=") && $0.query.contains("conformance_orders") }) { page, _ in
                add(record, to: "records", of: &page)
            }),
        ScopeLeak(
            what: "begins a feed with all records", noticedBy: "scope-feed",
            spoil: pages(where: { cursor($0)?.isNull == true }) { _, page, _ in
                if page["entity"] == "conformance_orders" { add(record, to: "records", of: &page) }
            }),
        ScopeLeak(
            what: "tells all deletions", noticedBy: "scope-feed-later",
            spoil: pages(where: { cursor($0)?.text != nil }) { _, page, _ in
                if page["entity"] == "conformance_orders" { add(deletion(foreign), to: "deletions", of: &page) }
            }),
        ScopeLeak(
            what: "has all records for who types the request", noticedBy: "scope-feed-get",
            spoil: first("/v1/sync/pull", where: { $0.method == .get && $0.query.contains("conformance_orders") }) { object, _ in
                ConformanceTests.each("streams", in: &object) { add(record, to: "records", of: &$0) }
            }),
        ScopeLeak(
            what: "tells a scope of others at the end of a listing", noticedBy: "scope-listing-told",
            spoil: first(listing) { page, _ in
                guard var scopes = page["scopes"]?.object else { return }
                scopes["site"] = .array((scopes["site"]?.array ?? []) + [.string(south)])
                page["scopes"] = .object(scopes)
            }),
        ScopeLeak(
            what: "does not say that a record has left with a change", noticedBy: "scope-left-told",
            spoil: first("/v1/sync/push") { object, _ in ConformanceTests.each("results", in: &object) { $0["left"] = nil } }),
        ScopeLeak(
            what: "compares with all records", noticedBy: "scope-verify",
            spoil: first("/v1/sync/verify") { object, _ in
                let bucket = EntityDigest.bucket(of: RecordID(trusted: foreign))
                if object["differs"]?.array?.isEmpty == true { object["differs"] = [.int(Int64(bucket))] }
            }),
        ScopeLeak(
            what: "does not miss the records of others in a digest", noticedBy: "scope-verify-foreign",
            spoil: first("/v1/sync/verify") { object, _ in
                let bucket = Int64(EntityDigest.bucket(of: RecordID(trusted: foreign)))
                object["differs"] = .array((object["differs"]?.array ?? []).filter { $0.int != bucket })
            }),
        ScopeLeak(
            what: "counts all records", noticedBy: "scope-total",
            spoil: first(listing) { page, memory in
                memory.count += 1
                if let total = page["total"]?.int { page["total"] = .int(total + memory.count) }
            }),
        ScopeLeak(
            what: "counts all deletions", noticedBy: "scope-deleted-total",
            spoil: first(listing) { page, memory in
                memory.count += 1
                if let total = page["deleted_total"]?.int { page["deleted_total"] = .int(total + memory.count) }
            }),
    ]

    // MARK: Cursors

    /// Answers a pull with a cursor of the second device as the whole share of that device.
    private static func believing(
        _ known: @escaping @Sendable (Memory) -> Set<String>
    ) -> @Sendable (inout HTTPRequest, Memory) -> Void {
        { request, memory in
            guard request.isOfFirst, request.path == "/v1/sync/pull", let shown = cursor(request)?.text, known(memory).contains(shown),
                var object = request.json
            else { return }
            ConformanceTests.each("streams", in: &object) { $0["cursor"] = .null }
            request.body = .bytes(JSON.object(object).bytes)
            asking(as: tokens.second) { _, _ in true }(&request, memory)
        }
    }

    private static let cursors = [
        ScopeLeak(what: "believes a cursor whose it is", noticedBy: "scope-cursor-foreign", alter: believing(\.cursors)),
        ScopeLeak(what: "believes the start of a listing whose it is", noticedBy: "scope-cursor-listed", alter: believing(\.starts)),
        ScopeLeak(
            what: "takes a cursor that it cannot read for one of everybody", noticedBy: "scope-cursor-flipped",
            spoil: first("/v1/sync/pull") { object, _ in
                guard let error = object["errors"]?.array?.first?.object, error["entity"] == "conformance_orders" else { return }
                object["errors"] = []
                object["streams"] = [
                    ["entity": "conformance_orders", "cursor": "all", "has_more": false, "records": [record], "deletions": []]
                ]
            }),
        ScopeLeak(
            what: "compares with the share of the cursor's device", noticedBy: "scope-verify-cursor",
            alter: asking(as: tokens.second) { request, memory in
                request.path == "/v1/sync/verify" && memory.cursors.union(memory.starts).contains(cursor(request)?.text ?? "")
            }),
        ScopeLeak(
            what: "does not know a cursor of before a grant", noticedBy: "scope-cursor-older",
            spoil: { request, response, memory in
                guard request.isOfFirst, let shown = cursor(request)?.text, response.status == 200,
                    let object = (try? JSONReader.read(response.body))?.object, object["streams"]?.array?.isEmpty == false,
                    !memory.used.insert(shown).inserted
                else { return }
                response.body =
                    JSON.object([
                        "epoch": object["epoch"] ?? .null, "head": object["head"] ?? .null, "streams": [],
                        "errors": [
                            [
                                "entity": "conformance_orders",
                                "problem": ["type": "urn:edge-sync:cursor-expired", "title": "Cursor expired", "status": 410],
                            ]
                        ],
                    ]).bytes
            }),
    ]

    // MARK: Changes

    private static let moves = [
        ScopeLeak(
            what: "does not say that a record was revoked", noticedBy: "scope-left",
            spoil: pages { _, page, _ in ConformanceTests.each("deletions", in: &page) { $0["reason"] = nil } }),
        ScopeLeak(
            what: "tells what happens to a record that has left", noticedBy: "scope-left-silent",
            spoil: pages { _, page, memory in
                if page["deletions"]?.array?.isEmpty == true, let id = memory.revoked.last { add(deletion(id), to: "deletions", of: &page) }
            }),
        ScopeLeak(
            what: "forgets a record that has left once for ever", noticedBy: "scope-returned",
            spoil: pages { _, page, memory in
                page["records"] = .array((page["records"]?.array ?? []).filter { !memory.revoked.contains($0.object?["id"]?.text ?? "") })
            }),
        ScopeLeak(
            what: "goes on with the scopes of before", noticedBy: "scope-gained", ablations: Ablations([.scopeChangesIgnored])),
        ScopeLeak(
            what: "sends a gained scope again and again", noticedBy: "scope-gained-once",
            spoil: pages { _, page, memory in
                let isIdle = page["records"]?.array?.isEmpty == true && page["deletions"]?.array?.isEmpty == true
                guard isIdle, memory.count > 0, let id = memory.west.first else {
                    memory.count += page["records"].map(hasWest) ?? 0
                    return
                }
                let again: JSON = ["id": .string(id), "version": .int(1 << 40), "data": ["site": .string(west)]]
                add(again, to: "records", of: &page)
            }),
        ScopeLeak(
            what: "leaves a device what it has of a lost scope", noticedBy: "scope-lost",
            spoil: pages { _, page, _ in
                page["deletions"] = .array((page["deletions"]?.array ?? []).filter { $0.object?["reason"] != "revoked" })
            }),
        ScopeLeak(
            what: "names what enters a lost scope as revoked", noticedBy: "scope-lost-silent",
            spoil: pages { _, page, memory in
                if memory.west.count > 1, let id = memory.west.last { add(deletion(id), to: "deletions", of: &page) }
            }),
        ScopeLeak(
            what: "lets a device write in a scope that it had", noticedBy: "scope-lost-rights",
            alter: asking(as: tokens.office) { request, memory in
                mutations(request).contains { $0["data"]?.object?["note"] == "late" && memory.west.contains($0["record_id"]?.text ?? "") }
            }),
        ScopeLeak(
            what: "refuses the office's deletions", noticedBy: "scope-cleanup",
            spoil: { request, response, memory in
                guard request.isOf(tokens.office),
                    mutations(request).contains(where: { $0["entity"] == "conformance_orders" && $0["action"] == "delete" }),
                    var object = (try? JSONReader.read(response.body))?.object  // A push is answered with JSON.
                else { return }
                ConformanceTests.each("results", in: &object) { refuse(&$0) }
                response.body = JSON.object(object).bytes
            }),
    ]

    /// The number of records in the scope that comes and goes.
    private static func hasWest(_ records: JSON) -> Int64 {
        Int64((records.array ?? []).count { $0.object?["data"]?.object?["site"]?.text == west })
    }

    // MARK: Files

    /// Hands out a file to the first device for ever after it has done so once.
    private static let remembering: @Sendable (HTTPRequest, inout HTTPResponse, inout Memory) -> Void = { request, response, memory in
        guard request.isOfFirst, request.path.hasPrefix("/v1/blobs/") else { return }
        if response.status == 200 { memory.used.insert(request.path) }
        if response.status == 404, memory.used.contains(request.path) { response.status = 200 }
    }

    private static let files = [
        ScopeLeak(
            what: "hands out every file by its digest", noticedBy: "scope-file-foreign",
            alter: asking(as: tokens.second) { request, _ in request.path.hasPrefix("/v1/blobs/") }),
        ScopeLeak(
            what: "hands out only what a device has brought itself", noticedBy: "scope-file-shown",
            spoil: { request, response, _ in
                if request.isOfFirst, request.path.hasPrefix("/v1/blobs/"), response.body.count == 700 {
                    response = HTTPResponse(status: 404)
                }
            }),
        ScopeLeak(
            what: "goes on to hand out a file whose record has left the share", noticedBy: "scope-file-withdrawn", spoil: remembering),
        ScopeLeak(
            what: "goes on to hand out a file that no record names", noticedBy: "scope-file-unnamed", spoil: remembering),
        ScopeLeak(
            what: "hands out a file to the writer of its digest", noticedBy: "scope-file-digest",
            spoil: { request, response, memory in
                guard request.isOfFirst else { return }
                for mutation in mutations(request) {
                    if let digest = mutation["data"]?.object?["photo"]?.object?["$blob"]?.text { memory.used.insert(digest) }
                }
                let name = String(request.path.dropFirst("/v1/blobs/".utf8.count))
                if response.status == 404, memory.used.contains(name) { response.status = 200 }
            }),
        ScopeLeak(
            what: "leaves a record waiting for an offered file", noticedBy: "scope-file-offered",
            ablations: Ablations([.offersUnheard])),
        ScopeLeak(
            what: "spares an upload of what it has already", noticedBy: "scope-file-again",
            spoil: { request, response, _ in
                if request.isOfFirst, request.method == .head, response.headers["Upload-Length"] == "600" {
                    response.headers["Upload-Offset"] = "600"
                }
            }),
        ScopeLeak(
            what: "lets every device end an upload", noticedBy: "scope-upload-foreign",
            alter: asking(as: tokens.second) { request, _ in request.method == .delete && request.path.hasPrefix("/v1/files/") }),
    ]
}
