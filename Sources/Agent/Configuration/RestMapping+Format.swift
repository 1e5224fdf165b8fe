import SyncCore
import SyncYAML

// The key `rest`: the requests of an existing backend (PROTOCOL A13). Its faults are found here, at load; no fault of the mapping itself
// should only show at a request.

extension RestMapping {
    static var format: Format<RestMapping> {
        .mapping(
            RestMapping(),
            [
                .key("base_url", \.baseURL, .backendURL, isRequired: true),
                .key("headers", \.headers, .dictionary(of: HeaderValue.format, names: .headerName, text: { $0 }, upTo: 20)),
                .optional("idempotency", \.idempotency, Idempotency.format),
                .key("verify_after", \.verifyAfter, .duration(.zero...(.seconds(3_600)))),
                .key("not_applied", \.notApplied, .failureStatuses),
                .key("probe", \.probe, .plainTarget),
                .key("entities", \.entities, .dictionary(of: RestEntity.format, names: .identifier(), text: \.text), isRequired: true),
            ],
            check: { mapping, node, reading in
                for (name, value) in mapping.headers.sorted(by: { $0.key < $1.key }) where value.text != nil {
                    guard secretHeaders.contains(where: { asciiCaseEqual($0, name) }) else { continue }
                    let place = node.deepest(["headers", name]).position
                    reading.report(place, below: "headers." + keyText(name), problem: "holds a secret", expected: "{ file: PATH }")
                }
                for name in reservedHeaders {
                    guard let given = mapping.headers.keys.first(where: { asciiCaseEqual($0, name) }) else { continue }
                    let place = node.deepest(["headers", given]).position
                    reading.report(place, below: "headers." + keyText(given), problem: "is set by the agent itself")
                }
            })
    }

    private static let secretHeaders = [
        "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token", "X-Access-Token",
    ]
    private static let reservedHeaders = [
        "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "If-Match", "Connection", "Accept-Encoding",
    ]

    /// Checks the mapping against the entities.
    static func checkEntities(_ configuration: AgentConfiguration, _ root: YAMLNode, _ reading: inout Reading) {
        guard configuration.adapter == .rest else { return }
        guard let rest = configuration.rest else {
            return reading.report(
                root.deepest(["adapter"]).position, below: "rest", problem: "is missing",
                expected: "how the requests of the backend look, because adapter is rest")
        }
        if configuration.hub.url.text != rest.baseURL {
            reading.report(
                root.deepest(["hub", "url"]).position, below: "hub.url", problem: "is another address than rest.base_url",
                expected: "no hub.url, because adapter is rest")
        }
        func report(_ path: [String], _ problem: String, _ expected: String? = nil) {
            reading.report(
                root.deepest(path).position, below: path.map { keyText($0) }.joined(separator: "."), problem: problem,
                expected: expected)
        }
        for name in configuration.rules.entities.keys.sorted() where rest.entities[name] == nil {
            report(["entities", name.text], "has no mapping", "\(name.text) below rest.entities")
        }
        for (name, rules) in configuration.rules.entities.sorted(by: { $0.key < $1.key }) where rules.keep != nil {
            // A backend states no versions that a stub could be compared with, so its next list would bring every dropped document back.
            report(["entities", name.text, "keep"], "is not possible with adapter: rest", "no such key, or adapter: hub")
        }
        for (name, rules) in configuration.rules.entities.sorted(by: { $0.key < $1.key }) where rules.files == .ahead {
            report(["entities", name.text, "files"], "is not possible with adapter: rest", "no such key, or adapter: hub")
        }
        for (name, mapping) in rest.entities.sorted(by: { $0.key < $1.key }) {
            let place = ["rest", "entities", name.text]
            guard let rules = configuration.rules.entities[name] else {
                report(place, "is no entity", "\(name.text) below entities")
                continue
            }
            switch rules.kind {
            case .event:
                if mapping.create == nil { report(place, "is of the kind event and has no create", "create") }
                let others = [
                    ("update", mapping.update == nil), ("delete", mapping.delete == nil), ("list", mapping.list == nil),
                ]
                for (key, isMissing) in others where !isMissing { report(place + [key], "is of no use: events are only created") }
            case .reference:
                if mapping.list == nil { report(place, "is of the kind reference and has no list", "list") }
                let others = [
                    ("create", mapping.create == nil), ("update", mapping.update == nil), ("delete", mapping.delete == nil),
                ]
                for (key, isMissing) in others where !isMissing { report(place + [key], "is of no use: references are only read") }
            case .record: break
            }
        }
    }
}

extension RestMapping.HeaderValue {
    /// Reads a text, or a mapping that names a file.
    fileprivate static var format: Format<Self> {
        let file = Format<Self>.mapping(
            Self(),
            [
                .optional("file", \.file, .secretFile),
                .key("prefix", \.prefix, .headerText(upTo: 64)),
            ],
            check: { value, node, reading in
                if value.file == nil {
                    reading.report(node.position, below: "file", problem: "is missing", expected: "the file that holds the secret")
                }
            })
        let text = Format<String>.headerText(upTo: 1_024)
        return Format(
            expected: "a text, or { file: PATH }", keys: file.keys,
            read: { node, reading in
                if node.members != nil { return file.read(node, &reading) }
                return text.read(node, &reading).map { Self(text: $0) }
            },
            write: { $0.text.map { .string($0) } ?? file.write($0) })
    }
}

extension RestMapping.Idempotency {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(),
            [
                .key("header", \.header, .headerName),
                .key("quoted", \.isQuoted, .boolean),
                .key("window", \.window, .duration(.seconds(60)...(.days(400)))),
            ])
    }
}

extension RestEntity.OwnIdempotency {
    /// Reads `none`, or the settings of this entity.
    fileprivate static var format: Format<Self> {
        let own = RestMapping.Idempotency.format
        return Format(
            expected: "none, or a mapping with the keys header, quoted, window", keys: own.keys, whenEmpty: .refused,
            read: { node, reading in
                if node.members != nil { return own.read(node, &reading).map { .own($0) } }
                if case .scalar("none", _) = node.content { return RestEntity.OwnIdempotency.none }
                if case .scalar("default", _) = node.content { return .asAll }
                reading.refuse(node, expected: "none, default, or a mapping with the keys header, quoted, window")
                return nil
            },
            write: { value in
                switch value {
                case .asAll: "default"
                case .none: "none"
                case .own(let idempotency): own.write(idempotency)
                }
            })
    }
}

extension RestEntity {
    fileprivate static var format: Format<RestEntity> {
        .mapping(
            RestEntity(),
            [
                .optional("create", \.create, Write.format(.create)),
                .optional("update", \.update, Write.format(.update)),
                .optional("delete", \.delete, Write.format(.delete)),
                .optional("read", \.read, Read.format),
                .optional("list", \.list, List.format),
                .optional("lookup", \.lookup, Lookup.format),
                .key("id", \.id, .jsonPath),
                .optional("client_id", \.clientID, .fieldName),
                .key("fields", \.fields, .dictionary(of: .fieldName, names: .fieldName, text: { $0 }, upTo: 200)),
                .key("read_only", \.readOnly, .fieldNames),
                .key("idempotency", \.idempotency, OwnIdempotency.format),
            ],
            check: { entity, node, reading in
                func report(_ path: [String], _ problem: String, _ expected: String? = nil) {
                    reading.report(
                        node.deepest(path).position, below: path.joined(separator: "."), problem: problem, expected: expected)
                }
                for (key, write) in [("update", entity.update), ("delete", entity.delete)] where write?.ifMatch == true {
                    if entity.read == nil {
                        report([key, "if_match"], "needs a read, which asks for the version that is to match", "read")
                    } else if entity.read?.version == nil {
                        report([key, "if_match"], "needs to know the version", "read.version, such as header:ETag")
                    }
                }
                if entity.lookup != nil, entity.clientID == nil {
                    report(["lookup"], "cannot tell our record from others", "client_id, the backend's field for our id")
                }
                let doubled = Dictionary(grouping: entity.fields, by: \.value).filter { $0.value.count > 1 }
                for (name, fields) in doubled.sorted(by: { $0.key < $1.key }) {
                    let names = fields.map(\.key).sorted()
                    report(["fields", names[1]], "is \(name), as \(names[0]) is", "another field of the backend")
                }
            })
    }
}

extension RestEntity.Write {
    fileprivate static func format(_ action: MutationAction) -> Format<Self> {
        let methods: [(word: String, value: HTTPRequest.Method)]
        let initial: Self
        switch action {
        case .create:
            methods = [("POST", .post), ("PUT", .put)]
            initial = Self(method: .post, path: .root, body: .document, ok: [200, 201])
        case .update:
            methods = [("PATCH", .patch), ("PUT", .put), ("POST", .post)]
            initial = Self(method: .patch, path: .root, body: .changed, ok: [200, 204])
        case .delete:
            methods = [("DELETE", .delete), ("POST", .post)]
            initial = Self(method: .delete, path: .root, body: .none, ok: [200, 202, 204, 404, 410])
        }
        var keys: [MappingKey<Self>] = [
            .key("method", \.method, .word(methods)),
            .key(
                "path", \.path,
                .pathTemplate(excluding: action == .create ? ["server_id", "cursor", "limit", "next"] : ["cursor", "limit", "next"]),
                isRequired: true),
            .key("ok", \.ok, .list(.integer(200...499), upTo: 20)),
        ]
        if action != .delete {
            keys += [
                .key("body", \.body, .word([("document", .document), ("changed", .changed)])),
                .key("content_type", \.contentType, .mediaType),
                .optional("document", \.document, .jsonPath),
                .optional("version", \.version, .answerSource),
            ]
        }
        if action == .create {
            keys.append(.optional("id", \.id, .answerSource))
        } else {
            keys.append(.key("if_match", \.ifMatch, .boolean))
        }
        return .mapping(
            initial, keys,
            check: { write, node, reading in
                if write.ok.isEmpty {
                    reading.report(node.deepest(["ok"]).position, below: "ok", problem: "is empty", expected: "at least one status")
                }
            })
    }
}

extension RestEntity.Read {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(path: .root),
            [
                .key("path", \.path, .pathTemplate(excluding: ["cursor", "limit", "next"]), isRequired: true),
                .optional("version", \.version, .answerSource),
                .key("document", \.document, .jsonPath),
            ])
    }
}

extension RestEntity.Lookup {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(path: .root),
            [
                .key("path", \.path, .pathTemplate(excluding: ["server_id", "cursor", "limit", "next"]), isRequired: true),
                .key("items", \.items, .jsonPath),
            ])
    }
}

extension RestEntity.List {
    fileprivate static var format: Format<Self> {
        .mapping(
            Self(path: .root, items: .whole),
            [
                .key("path", \.path, .pathTemplate(only: ["cursor", "limit", "next"]), isRequired: true),
                .key("items", \.items, .jsonPath, isRequired: true),
                .optional("next", \.next, .answerSource),
                .optional("cursor_from", \.cursorFrom, .jsonPath),
                .key("overlap", \.overlap, .duration(.seconds(1)...(.days(7)))),
                .optional("deleted", \.deleted, .jsonPath),
                .optional("version", \.version, .jsonPath),
                .key("limit", \.limit, .integer(1...Limits.pullRecordsMax)),
            ],
            check: { list, node, reading in
                func report(_ key: String, _ problem: String, _ expected: String) {
                    reading.report(node.deepest([key]).position, below: key, problem: problem, expected: expected)
                }
                let places = list.path.places
                if places.contains("cursor"), list.cursorFrom == nil {
                    report(
                        "path", "asks from {cursor} on, and nothing says where that is", "cursor_from, such as $.items[*].updated_at:max")
                }
                if !places.contains("cursor"), list.cursorFrom != nil {
                    report("cursor_from", "is of no use: the path does not ask from {cursor} on", "{cursor} in the query of the path")
                }
                if places.contains("next"), list.next == nil {
                    report("path", "asks for {next}, and nothing says where that is", "next, such as $.next_page")
                }
            })
    }
}

// MARK: - Small values

extension PathTemplate {
    /// Placeholder for a missing path, which is required.
    fileprivate static let root: PathTemplate = {
        guard let root = PathTemplate("/") else { preconditionFailure("a slash is a path") }
        return root
    }()
}

extension Format where Value == PathTemplate {
    fileprivate static func pathTemplate(excluding: [String] = [], only: [String]? = nil) -> Format {
        let example = only == nil ? "/audits/{id}" : "/audits?updated_since={cursor}&limit={limit}"
        var words = "a path with places such as \(example)"
        if let only { words += ", of which there are " + only.map { "{\($0)}" }.joined(separator: ", ") }
        if !excluding.isEmpty { words += ", without " + excluding.map { "{\($0)}" }.joined(separator: ", ") }
        let expected = words
        return .text(
            expected: expected,
            parse: { text in
                guard let template = PathTemplate(text) else { return nil }
                let places = template.places
                if let only, !places.allSatisfy(only.contains) { return nil }
                return places.contains(where: excluding.contains) ? nil : template
            }, write: { .string($0.text) })
    }
}

extension Format where Value == JSONPath {
    fileprivate static var jsonPath: Format {
        .text(
            expected: "a path such as $, $.data.id or $.items[*].updated_at:max", parse: { JSONPath($0) },
            write: { .string($0.text) })
    }
}

extension Format where Value == AnswerSource {
    fileprivate static var answerSource: Format {
        .text(
            expected: "header:NAME, or a path such as $.id", parse: { AnswerSource($0) }, write: { .string($0.text) })
    }
}

extension Format where Value == Set<Int> {
    fileprivate static var failureStatuses: Format {
        Format<[Int]>.list(.integer(500...599), upTo: 20).mapped({ list, _, _ in Set(list) }, back: { $0.sorted() })
    }
}

extension Format where Value == Set<String> {
    fileprivate static var fieldNames: Format {
        Format<[String]>.list(.fieldName, upTo: 200).mapped({ list, _, _ in Set(list) }, back: { $0.sorted() })
    }
}

extension Format where Value == String {
    fileprivate static var backendURL: Format {
        Format<ServiceURL>.serviceURL(plain: .loopbackOnly).mapped(
            { url, node, reading in
                // The address of a next page has its whole path, so a part of it here would be duplicated.
                let host = url.text.dropFirst(url.isSecure ? 8 : 7)
                guard host.contains("/") else { return url.text }
                reading.refuse(node, expected: "https://HOST or https://HOST:PORT; a path is part of the paths below")
                return nil
            }, back: { (try? ServiceURL($0)) ?? .notGiven })  // the text was made of such an address
    }

    fileprivate static var headerName: Format {
        .text(expected: "the name of a header, such as X-Api-Key", parse: { HTTPFieldName.isValid($0) ? $0 : nil }, write: { .string($0) })
    }

    fileprivate static func headerText(upTo limit: Int) -> Format {
        .text(
            expected: "visible ASCII of at most \(limit) bytes",
            parse: { text in text.utf8.count <= limit && text.utf8.allSatisfy { (0x20...0x7E).contains($0) } ? text : nil },
            write: { .string($0) })
    }

    /// Reads an absolute path, or the name of a systemd credential.
    fileprivate static var secretFile: Format {
        .text(
            expected: "an absolute path, or the name of a systemd credential", hidesValue: true,
            parse: { text in
                guard (1...4_095).contains(text.utf8.count), !text.utf8.contains(0), !text.hasSuffix("/") else { return nil }
                let parts = text.split(separator: "/")
                if parts.contains(".") || parts.contains("..") { return nil }
                return text.hasPrefix("/") || parts.count == 1 ? text : nil
            }, write: { .string($0) })
    }

    fileprivate static var fieldName: Format {
        .text(
            expected: "the name of a field, 1 to 128 bytes", parse: { (1...128).contains($0.utf8.count) ? $0 : nil },
            write: { .string($0) })
    }

    fileprivate static var mediaType: Format {
        .text(
            expected: "a media type of JSON, such as application/merge-patch+json",
            parse: { text in
                let parts = text.split(separator: "/")
                let isPlain = text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 34 } && text.utf8.count <= 100
                return isPlain && parts.count == 2 && parts[0] == "application" && text.hasSuffix("json") ? text : nil
            }, write: { .string($0) })
    }

    fileprivate static var plainTarget: Format {
        .text(
            expected: "a path such as /healthz",
            parse: { text in PathTemplate(text).flatMap { $0.places.isEmpty ? text : nil } }, write: { .string($0) })
    }
}
