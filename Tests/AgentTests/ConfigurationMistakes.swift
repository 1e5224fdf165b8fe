/// One row for each way to write a key wrongly. Lines count with the hub's line before the text.
enum ConfigurationMistakes {
    struct Row: Sendable {
        var text: String
        var messages: [String]
    }

    static let rows: [Row] =
        keys.map { Row(text: $0.0, messages: [$0.1]) } + [
            Row(
                text: "sync:\n  pull_intervall: 60s",
                messages: ["3:3: sync.pull_intervall: unknown key (did you mean pull_interval?)"]),
            Row(text: "snyc: {}", messages: ["2:1: snyc: unknown key (did you mean sync?)"]),
            Row(text: "hub: {}", messages: ["2:1: the key hub is given twice, expected it only in line 1"]),
            Row(text: "insecure_dev: true", messages: ["2:1: insecure_dev: unknown key, expected one of \(names)"]),
            Row(text: "pull_interval: 60s", messages: ["2:1: pull_interval: unknown key (did you mean sync.pull_interval?)"]),
            Row(
                text: "power: { low: 5, saver: 200%, margin: true }",
                messages: [
                    "2:15: power.low: 5 is not accepted, expected a share from 0% to 90%",
                    "2:25: power.saver: 200% is not accepted, expected a share from 0% to 95%",
                    "2:39: power.margin: true is not accepted, expected a share from 1% to 20%",
                ]),
        ]

    private static let names =
        "hub, adapter, rest, socket, access, store, entities, strict_entities, sync, probe, links, power, metered, blobs, log, locked"
    private static let duration = ", such as 500ms, 30s, 5m, 24h or 7d"
    private static let size = ", such as 64KB, 5MB or 10KiB"

    private static let keys: [(String, String)] = hub + rest + limits + access + links + relations

    private static let rest: [(String, String)] = [
        ("rest: { entities: {} }", "2:7: rest.base_url: is missing, expected https://HOST or https://HOST:PORT"),
        (
            "rest: { base_url: \"http://api.example.org\", entities: {} }",
            "2:19: rest.base_url: \"http://api.example.org\" is not accepted, expected https://, because http:// is only for a loopback address"
        ),
        (
            "rest: { base_url: \"https://api.example.org/v2\", entities: {} }",
            "2:19: rest.base_url: \"https://api.example.org/v2\" is not accepted, expected https://HOST or https://HOST:PORT; a path is part of the paths below"
        ),
        (
            inRest("headers: { \"X Y\": a }"),
            "4:14: rest.headers.\"X Y\": \"X Y\" is not accepted, expected the name of a header, such as X-Api-Key"
        ),
        (inRest("headers: { Authorization: Bearer x }"), "4:29: rest.headers.Authorization: holds a secret, expected { file: PATH }"),
        (inRest("headers: { Host: x }"), "4:20: rest.headers.Host: is set by the agent itself"),
        (
            inRest("idempotency: { window: 1s }"),
            "4:26: rest.idempotency.window: 1s is not accepted, expected a duration from 60s to 400d" + duration
        ),
        (inRest("verify_after: 2h"), "4:17: rest.verify_after: 2h is not accepted, expected a duration from 0s to 1h" + duration),
        (inRest("not_applied: [404]"), "4:17: rest.not_applied[0]: 404 is not accepted, expected a whole number from 500 to 599"),
        (inRest("probe: healthz"), "4:10: rest.probe: healthz is not accepted, expected a path such as /healthz"),
        (
            inAudits("create: { path: \"/audits/{server_id}\" }"),
            "6:23: rest.entities.audits.create.path: \"/audits/{server_id}\" is not accepted, expected a path with places such as /audits/{id}, without {server_id}, {cursor}, {limit}, {next}"
        ),
        (
            inAudits("create: { path: /audits, method: GET }"),
            "6:40: rest.entities.audits.create.method: GET is not accepted, expected POST or PUT"
        ),
        (
            inAudits("create: { path: /audits, id: id }"),
            "6:36: rest.entities.audits.create.id: id is not accepted, expected header:NAME, or a path such as $.id"
        ),
        (inAudits("create: { path: /audits, ok: [] }"), "6:36: rest.entities.audits.create.ok: is empty, expected at least one status"),
        (
            inAudits("update: { path: /a, if_match: true }"),
            "6:37: rest.entities.audits.update.if_match: needs a read, which asks for the version that is to match, expected read"
        ),
        (
            inAudits("lookup: { path: \"/a?r={id}\" }"),
            "6:15: rest.entities.audits.lookup: cannot tell our record from others, expected client_id, the backend's field for our id"
        ),
        (
            inAudits("list: { path: \"/a?s={cursor}\", items: $ }"),
            "6:21: rest.entities.audits.list.path: asks from {cursor} on, and nothing says where that is, expected cursor_from, such as $.items[*].updated_at:max"
        ),
        (
            inAudits("list: { path: /a, items: \"$.i[*].x\" }"),
            "6:32: rest.entities.audits.list.items: \"$.i[*].x\" is not accepted, expected a path such as $, $.data.id or $.items[*].updated_at:max"
        ),
        (
            inAudits("list: { path: /a, items: $, overlap: 0s, cursor_from: $.x }"),
            "6:44: rest.entities.audits.list.overlap: 0s is not accepted, expected a duration from 1s to 7d" + duration
        ),
        (
            inAudits("fields: { a: x, b: x }"),
            "6:26: rest.entities.audits.fields.b: is x, as a is, expected another field of the backend"
        ),
    ]

    private static func inRest(_ line: String) -> String {
        "rest:\n  base_url: https://api.example.org\n  \(line)\n  entities: {}"
    }

    private static func inAudits(_ line: String) -> String {
        "rest:\n  base_url: https://api.example.org\n  entities:\n    audits:\n      \(line)"
    }

    private static let hub: [(String, String)] = [
        ("hub_: {}", "2:1: hub_: unknown key (did you mean hub?)"),
        ("adapter: rest", "2:10: rest: is missing, expected how the requests of the backend look, because adapter is rest"),
        ("adapter: hubb", "2:10: adapter: hubb is not accepted, expected hub or rest (did you mean hub?)"),
        ("adapter:", "2:9: adapter: has no value, expected hub or rest, or no such line"),
        (
            "socket: { path: agent.sock }",
            "2:17: socket.path: agent.sock is not accepted, expected an absolute path of at most 107 bytes without . and .. in it"
        ),
        (
            "socket: { path: /" + longName + " }",
            "2:17: socket.path: /" + longName
                + " is not accepted, expected an absolute path of at most 107 bytes without . and .. in it"
        ),
        (
            "socket: { mode: 660 }",
            "2:17: socket.mode: 660 is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { mode: 432 }",
            "2:17: socket.mode: 432 is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { mode: 0o660 }",
            "2:17: socket.mode: 0o660 is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { mode: \"0680\" }",
            "2:17: socket.mode: \"0680\" is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { mode: \"0060\" }",
            "2:17: socket.mode: \"0060\" is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { mode: \"4660\" }",
            "2:17: socket.mode: \"4660\" is not accepted, expected four octal digits from 0600 to 0777, such as \"0660\""
        ),
        (
            "socket: { group: wheel }",
            "2:18: socket.group: wheel is not accepted, expected a group of this machine, by name or number"
        ),
        ("socket: [a]", "2:9: socket: a list is not accepted, expected a mapping with the keys path, group, mode"),
        ("strict_entities: yes", "2:18: strict_entities: yes is not accepted, expected true or false without quotes"),
        (
            "log: { level: off }",
            "2:15: log.level: off is not accepted, expected trace, debug, info, notice, warning, error or critical"
        ),
        (
            "log: { level: warn }",
            "2:15: log.level: warn is not accepted, expected trace, debug, info, notice, warning, error or critical"
        ),
        ("log: { format: jsn }", "2:16: log.format: jsn is not accepted, expected text or json (did you mean json?)"),
    ]

    private static let longName = String(repeating: "x", count: 107)

    private static let limits: [(String, String)] = [
        (
            "store: { path: state }",
            "2:16: store.path: state is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "store: { max_size: 7MB }",
            "2:20: store.max_size: 7MB is not accepted, expected a size from 8MB to 64GB" + size
        ),
        (
            "store: { max_size: 99999999999GB }",
            "2:20: store.max_size: 99999999999GB is not accepted, expected a size from 8MB to 64GB" + size
        ),
        (
            "store: { max_size: -1MB }",
            "2:20: store.max_size: -1MB is not accepted, expected a size from 8MB to 64GB" + size
        ),
        (
            "store: { max_size: 512 }",
            "2:20: store.max_size: 512 is not accepted, expected a size from 8MB to 64GB" + size
        ),
        (
            "store: { min_free: 0B }",
            "2:20: store.min_free: 0B is not accepted, expected a size from 1MB to 64GB" + size
        ),
        (
            "store: { ballast: 1GB }",
            "2:19: store.ballast: 1GB is not accepted, expected a size from 0B to 256MB" + size
        ),
        (
            "store: { max_mutations: 0 }",
            "2:25: store.max_mutations: 0 is not accepted, expected a whole number from 100 to 10000000"
        ),
        (
            "store: { max_mutations: 10000001 }",
            "2:25: store.max_mutations: 10000001 is not accepted, expected a whole number from 100 to 10000000"
        ),
        (
            "store: { max_mutations: \"500\" }",
            "2:25: store.max_mutations: \"500\" is not accepted, expected a whole number from 100 to 10000000 without quotes"
        ),
        (
            "sync: { pull_interval: 0s }",
            "2:24: sync.pull_interval: 0s is not accepted, expected a duration from 1s to 7d" + duration
        ),
        (
            "sync: { pull_interval: 8d }",
            "2:24: sync.pull_interval: 8d is not accepted, expected a duration from 1s to 7d" + duration
        ),
        (
            "sync: { metered_pull_interval: 59s }",
            "2:32: sync.metered_pull_interval: 59s is not accepted, expected a duration from 60s to 7d" + duration
        ),
        (
            "sync: { debounce: 61s }",
            "2:19: sync.debounce: 61s is not accepted, expected a duration from 0s to 60s" + duration
        ),
        (
            "sync: { max_backoff: 2h }",
            "2:22: sync.max_backoff: 2h is not accepted, expected a duration from 1s to 1h" + duration
        ),
        (
            "sync: { full_sync: 31d }",
            "2:20: sync.full_sync: 31d is not accepted, expected a duration from 1h to 30d" + duration
        ),
        (
            "sync: { compress_over: 2MiB }",
            "2:24: sync.compress_over: 2MiB is not accepted, expected a size from 0B to 1MiB" + size
        ),
        ("sync: { windows_hold: everything }", "2:23: sync.windows_hold: everything is not accepted, expected bulk or all"),
        ("sync: { wait_for_news: always }", "2:24: sync.wait_for_news: always is not accepted, expected auto or never"),
        ("sync: { windows: 22:00-05:00 }", "2:18: sync.windows: 22:00-05:00 is not accepted, expected a list"),
        (
            "sync: { windows: [22:00-22:00] }",
            "2:19: sync.windows[0]: 22:00-22:00 is not accepted, expected a part of the week, such as 22:00-05:00 or mon-fri 09:00-17:30"
        ),
        (
            "probe: { interval: 9s }",
            "2:20: probe.interval: 9s is not accepted, expected a duration from 10s to 24h" + duration
        ),
        (
            "probe: { timeout: 499ms }",
            "2:19: probe.timeout: 499ms is not accepted, expected a duration from 500ms to 60s" + duration
        ),
        (
            "probe: { url: ftp://x }",
            "2:15: probe.url: ftp://x is not accepted, expected https://HOST or https://HOST:PORT"
        ),
        (
            "metered: { max_age: 59s }",
            "2:21: metered.max_age: 59s is not accepted, expected a duration from 60s to 30d" + duration
        ),
        (
            "metered: { files_max_age: 91d }",
            "2:27: metered.files_max_age: 91d is not accepted, expected a duration from 60s to 90d" + duration
        ),
        ("blobs: { large: 2GB }", "2:17: blobs.large: 2GB is not accepted, expected a size from 0B to 1GB" + size),
        ("blobs: { concurrent: 9 }", "2:22: blobs.concurrent: 9 is not accepted, expected a whole number from 1 to 8"),
        ("blobs: { attempts: 0 }", "2:20: blobs.attempts: 0 is not accepted, expected a whole number from 1 to 100"),
        (
            "blobs: { max_size: 3GB }",
            "2:20: blobs.max_size: 3GB is not accepted, expected a size from 1KB to 2GiB" + size
        ),
        (
            "blobs: { fetch_max_size: 3GB }",
            "2:26: blobs.fetch_max_size: 3GB is not accepted, expected a size from 1KB to 2GiB" + size
        ),
        (
            "blobs: { upload_url: http://files.example.com }",
            "2:22: blobs.upload_url: http://files.example.com is not accepted, expected https://, because http:// is only for a loopback address"
        ),
        ("blobs: { verify: maybe }", "2:18: blobs.verify: maybe is not accepted, expected digest, download or none"),
        ("blobs: { gate: after }", "2:16: blobs.gate: after is not accepted, expected none or before"),
        ("blobs: { quota: 1KB }", "2:17: blobs.quota: 1KB is not accepted, expected a size from 1MB to 1000GB" + size),
        ("blobs: { keep: 1s }", "2:16: blobs.keep: 1s is not accepted, expected a duration from 60s to 400d" + duration),
        (
            "blobs: { import_dirs: [photos] }",
            "2:24: blobs.import_dirs[0]: photos is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "power: { sysfs_root: sys }",
            "2:22: power.sysfs_root: sys is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "power: { allow_critical: 1 }",
            "2:26: power.allow_critical: 1 is not accepted, expected true or false without quotes"
        ),
    ]

    private static let access: [(String, String)] = [
        (
            "access: []",
            "2:9: access: a list is not accepted, expected at least one rule, or no key access for the default rules"
        ),
        ("access: { user: root }", "2:9: access: a mapping is not accepted, expected a list"),
        ("access: [{ role: read }]", "2:10: access[0]: names no user and no group, expected user or group"),
        (
            "access: [{ user: root, group: agentd, role: read }]",
            "2:10: access[0]: has user and group, expected one of them"
        ),
        ("access: [{ user: root }]", "2:10: access[0].role: is missing, expected read, enqueue, operate or admin"),
        (
            "access: [{ user: tom, role: read }]",
            "2:18: access[0].user: tom is not accepted, expected a user of this machine, by name or number"
        ),
        (
            "access: [{ user: 4294967295, role: read }]",
            "2:18: access[0].user: 4294967295 is not accepted, expected a user of this machine, by name or number"
        ),
        (
            "access: [{ group: wheel, role: read }]",
            "2:19: access[0].group: wheel is not accepted, expected a group of this machine, by name or number"
        ),
        (
            "access: [{ user: root, role: amdin }]",
            "2:30: access[0].role: amdin is not accepted, expected read, enqueue, operate or admin (did you mean admin?)"
        ),
        (
            "access: [{ user: root, role: read, max_priority: high }]",
            "2:50: access[0].max_priority: high is not accepted, expected critical, normal or bulk"
        ),
        (
            "access: [{ user: root, role: read, rate: 0 }]",
            "2:42: access[0].rate: 0 is not accepted, expected a whole number from 1 to 100000"
        ),
        (
            "access: [{ user: root, role: read, quota_mutations: 0 }]",
            "2:53: access[0].quota_mutations: 0 is not accepted, expected a whole number from 1 to 10000000"
        ),
        (
            "access: [{ user: root, role: read, app: a b }]",
            "2:41: access[0].app: a b is not accepted, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -"
        ),
        (
            "access: [{ user: root, role: read, entities: [] }]",
            "2:46: access[0].entities: is empty, expected at least one entity, or no key entities for all of them"
        ),
        (
            "access: [{ user: root, role: read, entities: [a b] }]",
            "2:47: access[0].entities[0]: a b is not accepted, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -"
        ),
        (
            "access: [{ user: nobody, role: enqueue }]",
            "2:32: access[0].role: is too much for user 65534, expected read"
        ),
        (
            "access: [{ group: nogroup, role: read }]",
            "2:19: access[0].group: is the group 65534, which stands for every unknown group, expected another group"
        ),
        (
            "access: [{ user: root, role: read, quota: 5 }]",
            "2:36: access[0].quota: unknown key, expected one of user, group, role, entities, max_priority, app, rate, quota_mutations"
        ),
        (
            "strict_entities: true\naccess: [{ user: root, role: read, entities: [x] }]",
            "3:46: access[0].entities: names x, expected configured entities, because strict_entities is true"
        ),
    ]

    private static let links: [(String, String)] = [
        (
            "links: [{ metered: true }]",
            "2:9: links[0].match: is missing, expected an interface name or a pattern with * and ?, such as wwan*"
        ),
        (
            "links: [{ match: \"a b\" }]",
            "2:18: links[0].match: \"a b\" is not accepted, expected an interface name or a pattern with * and ?, such as wwan*"
        ),
        (
            "links: [{ match: eth0 }, { match: eth0 }]",
            "2:35: links[1].match: repeats the pattern of an earlier rule, which is the one in force"
        ),
        (
            "links: [{ match: eth0, metered: guess }]",
            "2:33: links[0].metered: guess is not accepted, expected true or false without quotes"
        ),
        (
            "links: [{ match: eth0, rate: 1B }]",
            "2:30: links[0].rate: 1B is not accepted, expected a size from 1KB to 1GB" + size
        ),
        (
            "links: [{ match: eth0, recover: /sbin/reset, recover_after: 1m }]",
            "2:61: links[0].recover_after: 1m is not accepted, expected a duration from 5m to 24h" + duration
        ),
        (
            "links: [{ match: eth0, recover: reset-modem }]",
            "2:33: links[0].recover: reset-modem is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "links: [{ match: eth0, prefer: -1 }]",
            "2:32: links[0].prefer: -1 is not accepted, expected a whole number from 0 to 1000"
        ),
        ("links: [{ match: eth0, budget: { day: 2MB, month: 1MB } }]", "2:39: links[0].budget.day: is more than month"),
        (
            "links: [{ match: eth0, budget: { day: 9KB } }]",
            "2:39: links[0].budget.day: 9KB is not accepted, expected a size from 10KB to 1000GB" + size
        ),
        (
            "links: [{ match: eth0, budget: { anchor_day: 29 } }]",
            "2:46: links[0].budget.anchor_day: 29 is not accepted, expected a whole number from 1 to 28"
        ),
        (
            "links: [{ match: eth0, budget: 5MB }]",
            "2:32: links[0].budget: 5MB is not accepted, expected a mapping with the keys day, month, anchor_day"
        ),
    ]

    private static let relations: [(String, String)] = [
        (
            "power: { low: 30% }",
            "2:15: power.low: leaves no room: low 30% and margin 3% together are more than saver 30%"
        ),
        (
            "power: { saver: 10% }",
            "2:17: power.saver: leaves no room: low 15% and margin 3% together are more than saver 10%"
        ),
        (
            "power: { margin: 16% }",
            "2:18: power.margin: leaves no room: low 15% and margin 16% together are more than saver 30%"
        ),
        (
            "power: { low: 0%, saver: 90%, margin: 11% }",
            "2:39: power.margin: leaves no room: saver 90% and margin 11% are more than 100%"
        ),
        ("probe: { interval: 10s, timeout: 11s }", "2:34: probe.timeout: is longer than interval"),
        ("store: { max_size: 8MB, ballast: 8MB }", "2:34: store.ballast: is not less than max_size"),
    ]

    /// The address, and the message after `hub.url: `.
    static let addresses: [(String, String)] = [
        (
            "http://hub.example.com",
            "http://hub.example.com is not accepted, expected https://, because http:// is only for a loopback address"
        ),
        (
            "http://10.0.0.1",
            "http://10.0.0.1 is not accepted, expected https://, because http:// is only for a loopback address"
        ),
        (
            "http://127.0.0.1.example.com",
            "http://127.0.0.1.example.com is not accepted, expected https://, because http:// is only for a loopback address"
        ),
        (
            "https://ines:hunter2@hub",
            "the value is not accepted, expected no user name or password in the URL: credentials go into a file"
        ),
        ("https://hub/?token=hunter2", "the value is not accepted, expected a URL without ? and #"),
        ("\"https://hub \"", "\"https://hub \" is not accepted, expected no spaces or control characters"),
        ("\" https://hub\"", "\" https://hub\" is not accepted, expected no spaces or control characters"),
        (
            "https://hüb.example",
            "https://hüb.example is not accepted, expected ASCII only: an international host name in its xn-- form, other characters as %XX"
        ),
        ("https://hub:0", "https://hub:0 is not accepted, expected a port from 1 to 65535"),
        ("https://hub:70000", "https://hub:70000 is not accepted, expected a port from 1 to 65535"),
        ("hub.example.com", "hub.example.com is not accepted, expected https://HOST or https://HOST:PORT"),
        ("ftp://hub", "ftp://hub is not accepted, expected https://HOST or https://HOST:PORT"),
        ("\"\"", "\"\" is not accepted, expected https://HOST or https://HOST:PORT"),
        ("[https://hub]", "a list is not accepted, expected https://HOST or https://HOST:PORT"),
    ]

    private static let namesInHub =
        "url, device, token_file, ca_file, client_cert_file, client_key_file, pin, proxy, proxy_credentials_file, no_proxy"

    /// A line below `hub`, and the message about it.
    static let hubKeys: [(String, String)] = [
        (
            "device: pump 17",
            "3:11: hub.device: pump 17 is not accepted, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -"
        ),
        (
            "device: null",
            "3:11: hub.device: has no value, expected a name of 1 to 64 characters A-Z a-z 0-9 . _ : -, or no such line"
        ),
        ("token: hunter2", "3:3: hub.token: unknown key, expected one of \(namesInHub)"),
        (
            "token_file: hunter2",
            "3:15: hub.token_file: the value is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "client_key_file: hunter2",
            "3:20: hub.client_key_file: the value is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        (
            "ca_file: ca.pem",
            "3:12: hub.ca_file: ca.pem is not accepted, expected an absolute path of at most 4095 bytes without . and .. in it"
        ),
        ("client_cert_file: /c", "3:21: hub.client_cert_file: is alone, expected client_key_file beside it"),
        ("client_key_file: /k", "3:20: hub.client_key_file: is alone, expected client_cert_file beside it"),
        (
            "pin: sha256//AAAA",
            "3:8: hub.pin: sha256//AAAA is not accepted, expected sha256//BASE64, several with ; between them"
        ),
        (
            "pin: sha1//AAAA",
            "3:8: hub.pin: sha1//AAAA is not accepted, expected sha256//BASE64, several with ; between them"
        ),
        ("verify: false", "3:3: hub.verify: unknown key, expected one of \(namesInHub)"),
        (
            "proxy: https://p:3128",
            "3:10: hub.proxy: the value is not accepted, expected http://HOST:PORT, without a user name, a password or a path: credentials go into hub.proxy_credentials_file"
        ),
        (
            "proxy: http://u:p@proxy:3128",
            "3:10: hub.proxy: the value is not accepted, expected http://HOST:PORT, without a user name, a password or a path: credentials go into hub.proxy_credentials_file"
        ),
        (
            "proxy: http://proxy:3128/x",
            "3:10: hub.proxy: the value is not accepted, expected http://HOST:PORT, without a user name, a password or a path: credentials go into hub.proxy_credentials_file"
        ),
        ("proxy_credentials_file: /p", "3:27: hub.proxy_credentials_file: is alone, expected proxy beside it"),
        ("no_proxy: [a]", "3:13: hub.no_proxy: is alone, expected proxy beside it"),
        (
            "no_proxy: ['*']",
            "3:14: hub.no_proxy[0]: \"*\" is not accepted, expected a host name such as example.com, an address, or a network such as 10.0.0.0/8"
        ),
    ]

    static let everyKey = """
        hub:
          url: http://127.0.0.1:8080/sync/
          device: pump-17
          token_file: /etc/agentd/token
          ca_file: /etc/agentd/ca
          client_cert_file: /etc/agentd/crt
          client_key_file: /etc/agentd/key
          pin: sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
          proxy: http://proxy:3128
          proxy_credentials_file: /etc/agentd/proxy
          no_proxy: [example.org, 10.0.0.0/8]
        adapter: hub
        rest:
          base_url: https://api.example.org
          headers: { X-Api-Key: { file: api_key, prefix: "Key " }, Accept-Language: de }
          idempotency: { header: X-Request-Id, quoted: true, window: 7d }
          verify_after: 60s
          not_applied: [503, 507]
          probe: /healthz
          entities:
            audits:
              create: { method: PUT, path: "/audits/{id}", body: document, content_type: application/vnd.x+json, ok: [201], id: "header:Location", version: $.rev, document: $.data }
              update: { method: PUT, path: "/audits/{server_id}", body: document, content_type: application/json, ok: [200], if_match: true, version: $.rev, document: $ }
              delete: { method: POST, path: "/audits/{server_id}/delete", ok: [200], if_match: false }
              read: { path: "/audits/{server_id}", version: $.rev, document: $.data }
              list: { path: "/audits?since={cursor}&n={limit}&page={next}", items: $.data, next: $.page, cursor_from: "$.data[*].at:max", overlap: 1s, deleted: $.gone, version: $.rev, limit: 1000 }
              lookup: { path: "/audits?ref={id}", items: $.data }
              id: $.uuid
              client_id: ref
              fields: { notes: remarks }
              read_only: [at]
              idempotency: none
        socket: { path: /tmp/agent.sock, group: inspectors, mode: "0600" }
        access:
          - group: inspectors
            role: enqueue
            entities: [audits]
            max_priority: normal
            app: inspector
            rate: 50
            quota_mutations: 20000
          - { user: 1234, role: admin }
        store: { path: /data/agentd/, max_size: 8MB, min_free: 1MB, ballast: 0B, max_mutations: 1000000 }
        entities: { audits: { priority: critical } }
        strict_entities: true
        sync:
          pull_interval: 1s
          metered_pull_interval: 1h
          debounce: 0s
          max_backoff: 10m
          full_sync: 30d
          compress_over: 0B
          windows: ["sat,sun 00:00-24:00", 22:00-05:00]
          windows_hold: all
          wait_for_news: never
        probe: { url: http://probe.example.com/x, interval: 1m, timeout: 500ms }
        links:
          - { match: "wwan*", metered: true, budget: { day: 20MB, month: 500MB, anchor_day: 28 }, rate: 256KB, prefer: 10,
              recover: /usr/local/sbin/reset-modem, recover_after: 5m, recover_every: 2h }
        power: { low: 10%, saver: 20%, margin: 10%, allow_critical: true, sysfs_root: /tmp/sys }
        metered: { max_age: 1m, files_max_age: 90d }
        blobs: { large: 0B, concurrent: 8, attempts: 1, max_size: 2GiB, fetch_max_size: 1MB,
          upload_url: https://files.example.com/tus, verify: download, gate: before, quota: 1MB, keep: 60s, import_dirs: [/srv/photos] }
        log: { level: trace, format: json }
        locked: [sync.pull_interval]

        """
}
