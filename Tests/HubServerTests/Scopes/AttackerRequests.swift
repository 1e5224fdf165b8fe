import HubServer
import SyncCore

/// The requests that an attacker can make with one device's token. A route without a request here does not compile; a method without one
/// fails a test.
extension AttackerStand {
    func requests(_ endpoint: Endpoint, about subject: Subject) -> [Asked] {
        switch endpoint {
        case .probe: [Asked(what: "probe", method: "GET", target: "/v1/probe?n=\(subject.record)")]
        case .hello: hellos(subject)
        case .pull: pulls(subject)
        case .push: pushes(subject)
        case .snapshot: listings(subject)
        case .known: [post("known", "/v1/sync/known", ["keys": ["k-never", .string(subject.key)]])]
        case .verify: comparisons(subject)
        case .config: [Asked(what: "config", method: "GET", target: "/v1/config", headers: [("If-None-Match", "\"\(subject.key)\"")])]
        case .diagnostics:
            [
                Asked(
                    what: "diagnostics", method: "POST", target: "/v1/diagnostics", headers: [("Content-Type", "application/x-ndjson")],
                    body: Array("{\"record\":\"\(subject.record)\"}\n".utf8))
            ]
        case .enroll: [post("enrol", "/v1/devices/enroll", ["token": .string("ese_" + subject.key)])]
        case .token: [Asked(what: "token", method: "POST", target: "/v1/devices/token")]
        case .files: uploads(subject)
        case .file: pieces("/v1/files/" + subject.upload)
        case .blob:
            ["HEAD", "GET"].map { Asked(what: "blob \($0)", method: $0, target: "/v1/blobs/\(subject.digest)") }
                + ["HEAD", "GET"].map {
                    Asked(what: "blob by its full name, \($0)", method: $0, target: "/v1/blobs/sha256:\(subject.digest)")
                }
                + [("Range", "bytes=0-3"), ("Range", "bytes=999-"), ("If-None-Match", "*")].map {
                    Asked(what: "blob with \($0.0)", method: "GET", target: "/v1/blobs/\(subject.digest)", headers: [$0])
                } + [Asked(what: "blob offered", method: "HEAD", target: "/v1/blobs/\(subject.digest)", headers: [(Tus.length, "14")])]
        case .healthz, .readyz, .metrics: [Asked(what: endpoint.rawValue, method: "GET", target: endpoint.rawValue)]
        }
    }

    private func hellos(_ subject: Subject) -> [Asked] {
        [
            post("hello", "/v1/sync/hello", ["agent": "x", "entities": ["work_orders", "readings"]]),
            post("hello with a receipt", "/v1/sync/hello", [:], [(HubHeader.receipt, subject.receipt)]),
            post("hello as another device", "/v1/sync/hello", ["device_id": .string(subject.record)]),
            post("hello as another database", "/v1/sync/hello", ["replica": .string(subject.record)]),
            post("hello with its name in a header", "/v1/sync/hello", [:], [(HubHeader.device, subject.record)]),
        ]
    }

    private func pulls(_ subject: Subject) -> [Asked] {
        func pull(_ what: String, _ cursor: JSON, _ entity: String = "work_orders", limit: Int64 = 500) -> Asked {
            post(
                what, "/v1/sync/pull",
                [
                    "streams": [["entity": .string(entity), "cursor": cursor]], "limit": .int(limit), "unreadable": "named",
                    "entities": "named",
                ])
        }
        return [
            pull("the feed", .null), pull("the feed, page by page", .null, limit: 1), pull("the feed of events", .null, "readings"),
            pull("its own cursor", .string(cursor)), pull("its older cursor", .string(olderCursor)),
            pull("its older cursor, page by page", .string(olderCursor), limit: 1),
            pull("another device's cursor", .string(subject.cursor)), pull("the start of another device's listing", .string(subject.start)),
            pull("another device's cursor for another entity", .string(subject.cursor), "readings"),
            pull("a receipt for a cursor", .string(subject.receipt)), pull("a name for a cursor", .string(subject.record)),
            Asked(what: "the feed by GET", method: "GET", target: "/v1/sync/pull?entity=work_orders&limit=500"),
            Asked(
                what: "another device's cursor by GET", method: "GET",
                target: "/v1/sync/pull?entity=work_orders&limit=500&cursor=\(subject.cursor)"),
        ]
    }

    private func listings(_ subject: Subject) -> [Asked] {
        let bucket = EntityDigest.bucket(of: RecordID(trusted: subject.record))
        return [
            "limit=500", "limit=1", "limit=500&after=\(subject.record)", "limit=500&filter=seed", "limit=500&unreadable=named",
            "limit=500&bucket=" + (0...255).map { String($0) }.joined(separator: ","), "limit=500&bucket=\(bucket)&after=a",
        ].map { Asked(what: "listing with \($0.prefix(40))", method: "GET", target: "/v1/sync/snapshot?entity=work_orders&\($0)") }
            + [Asked(what: "listing of events", method: "GET", target: "/v1/sync/snapshot?entity=readings&limit=500")]
    }

    private func comparisons(_ subject: Subject) -> [Asked] {
        [("its own cursor", cursor), ("its older cursor", olderCursor), ("another device's cursor", subject.cursor)].compactMap {
            what, cursor in
            let request = VerifyRequest(entity: ScopeBench.orders, cursor: cursor, digest: EntityDigest())
            return Asked(what: "comparison with \(what)", method: "POST", target: "/v1/sync/verify", body: VerifyMessages.request(request))
        }
    }

    private func pushes(_ subject: Subject) -> [Asked] {
        func order(
            _ action: MutationAction, _ id: String, _ data: JSON? = nil, unset: [String] = [], ops: [JSON] = [], base: Int64 = 1,
            key: String? = nil, dependsOn: [String] = [], group: String? = nil
        ) -> Sent {
            Sent(
                key ?? self.key(), action, "work_orders", id: id, data: data, unset: unset, ops: ops, base: base, dependsOn: dependsOn,
                group: group)
        }
        let own: JSON = ["site": "own-site"]
        let used = key()
        return [
            push("update", [order(.update, subject.record, ["note": "x"])]),
            push("update on no base", [order(.update, subject.record, ["note": "x"], base: 0)]),
            push("update on another history", [order(.update, subject.record, ["note": "x"], base: -1)]),
            push("update that moves it here", [order(.update, subject.record, own)]),
            push("update of a guarded field", [order(.update, subject.record, ["price": 1])]),
            push("update of a field that people decide", [order(.update, subject.record, ["decision": "b"])]),
            push("removal of a field", [order(.update, subject.record, unset: ["site"])]),
            push("operation", [order(.update, subject.record, ops: [["field": "n", "op": "inc", "value": 1]])]),
            push("delete", [order(.delete, subject.record)]),
            push("two changes of one record", [order(.update, subject.record, ["note": "x"]), order(.delete, subject.record)]),
            push("create in another scope", [order(.create, key(), ["site": .string(subject.site)], base: 0)]),
            push("create beside another scope", [order(.create, key(), ["site": ["own-site", .string(subject.site)]], base: 0)]),
            push("move into another scope", [order(.update, "own-1", ["site": .string(subject.site)])]),
            push("create below a parent", [order(.create, key(), ["site": "own-site", "parent": .string(subject.record)], base: 0)]),
            push(
                "create below a parent that is refused in the same push",
                [
                    order(.update, subject.record, ["note": "x"]),
                    order(.create, key(), ["site": "own-site", "parent": .string(subject.record)], base: 0),
                ]),
            push("dependence on a key", [order(.create, key(), own, base: 0, dependsOn: [subject.key])]),
            push("list", [order(.update, "own-1", ["n": 1], group: "g-1"), order(.update, subject.record, ["n": 1], group: "g-1")]),
            push("list with a name in use", [order(.update, "own-1", ["n": 2], group: subject.group)]),
            push("event", [Sent(key(), .update, "readings", id: subject.event, data: ["t": 1], base: 1)]),
            push("first use of a key", [order(.update, "own-1", ["n": 3], key: used)]),
            push("second use of a key", [order(.update, subject.record, ["n": 3], key: used)]),
            push("replacement of another change", [order(.update, "own-1", ["n": 4]).with("supersedes", [.string(subject.key)])]),
            push("placeholder", [order(.create, "photo", ["site": "own-site", "photo": placeholder(subject)], base: 0)]),
            Asked(what: "the placeholder afterwards", method: "GET", target: "/v1/sync/snapshot?entity=work_orders&limit=500"),
            Asked(what: "the file afterwards", method: "GET", target: "/v1/blobs/\(subject.digest)"),
            push("key in use", [order(.update, "own-1", ["n": 5], key: subject.key)]),
        ]
    }

    private func placeholder(_ subject: Subject) -> JSON {
        ["$blob": .string("sha256:" + subject.digest), "size": 14, "type": "image/jpeg", "state": "pending"]
    }

    /// A create with an id that another device uses is the one change that tells so (PROTOCOL A16).
    func creation(_ subject: Subject) -> Asked {
        push("create", [Sent(key(), .create, "work_orders", id: subject.record, data: ["site": "own-site"])])
    }

    private static let tus = (Tus.resumable, Tus.version)

    private func uploads(_ subject: Subject) -> [Asked] {
        func creation(_ metadata: [(String, String)]) -> [(String, String)] {
            [Self.tus, (Tus.length, "14"), (Tus.metadata, Tus.metadata(metadata))]
        }
        let link = [("sha256", subject.digest), ("entity", "work_orders"), ("record", subject.record), ("field", "photo")]
        return [
            Asked(what: "tus", method: "OPTIONS", target: "/v1/files", headers: [Self.tus]),
            Asked(what: "upload", method: "POST", target: "/v1/files", headers: creation([("sha256", subject.digest)])),
            Asked(what: "upload for a record", method: "POST", target: "/v1/files", headers: creation(link)),
        ]
    }

    private func pieces(_ target: String) -> [Asked] {
        [
            Asked(what: "upload HEAD", method: "HEAD", target: target, headers: [Self.tus]),
            Asked(
                what: "upload PATCH", method: "PATCH", target: target,
                headers: [Self.tus, ("Content-Type", Tus.contentType), (Tus.offset, "0")], body: Array("x".utf8)),
            Asked(what: "upload DELETE", method: "DELETE", target: target, headers: [Self.tus]),
        ]
    }
}
