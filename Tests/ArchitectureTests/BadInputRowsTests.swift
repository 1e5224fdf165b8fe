import Foundation
import Testing

/// Which test holds which bad input: what comes, and `File.function` of what says what must happen then. A row without a test
/// has its reason instead. The names are checked below, so that the table does not outlive them.
///
/// Not here, because no test could tell: a machine with 32 MB (the memory that the agent needs is measured, `agentbench idle`
/// and `soak`), a filter that forbids netlink (the unit allows it, and its sandbox is tried by `deploy/lib/package-test`), a
/// gauge that says something else at each reading (levels have a margin; there is no wait between two of them), a call while a
/// damaged database is put in order (503 `starting`; the moment is too short to be met on purpose).
private let rows: [(input: String, tests: [String])] = [
    // MARK: The socket
    ("a user who may not use the route", ["BadInputTests.matrix", "BadInputTests.strangersBody"]),
    ("a user that our namespace cannot map, nobody", ["ConfigurationAccessTests.standard", "LocalAPITests.strangers"]),
    (
        "a thousand connections, one byte a second",
        ["LimitTests.flood", "LimitTests.slowLoris", "LimitTests.tooManyConnections", "LimitTests.idle"]
    ),
    ("a client that leaves before the answer", ["BadInputTests.leftBeforeAnswer", "AnswerTests.clientLeft"]),
    ("a client that never reads", ["LimitTests.writeStall", "BadInputTests.slowEvents"]),
    (
        "heads that are too long or broken",
        ["LimitTests.headBytes", "LimitTests.headFields", "FramingTests.refusesBrokenFraming"]
    ),
    ("two lengths, a sign, a hexadecimal length", ["FramingTests.refusesBrokenFraming"]),
    ("chunks that are too large, broken, without end", ["FramingTests.refusesBrokenFraming", "LimitTests.endlessChunkFrame"]),
    ("100-continue with a body that is too large", ["LimitTests.noContinueForUnwanted"]),
    ("a body beyond its limit", ["LimitTests.declaredTooLarge", "BadInputTests.discoveredTooLarge"]),
    (
        "pipelining, upgrades, other versions and methods",
        ["AnswerTests.pipelining", "FramingTests.refusesBrokenFraming", "FramingTests.http10"]
    ),
    ("other content types, charsets, codings", ["BodyRuleTests.decides"]),
    ("unknown paths, dots and escapes in them", ["RouteTests.refuses", "RouteTests.survivesNoise"]),
    ("what is not JSON", ["MutationBodyTests.refusesBrokenText", "JSONReaderTests.refuses"]),
    (
        "deep, long, endless JSON",
        ["JSONReaderTests.depth", "JSONReaderTests.longName", "JSONReaderTests.manyValues", "EnqueueBodyTests.nesting"]
    ),
    ("a member twice", ["JSONReaderTests.refuses", "JSONReaderTests.manyNames"]),
    ("numbers beyond all measure", ["BadInputTests.oddText", "JSONValueTests.whole"]),
    ("text that is not UTF-8; odd text", ["BadInputTests.notUTF8", "BadInputTests.oddText"]),
    ("wrong types, missing and unknown members", ["MutationBodyTests.refuses", "MutationBodyTests.collects"]),
    (
        "a key again, with the same and another body",
        ["LocalAPITests.idempotencyKey", "EnqueueTests.sameKey", "EnqueueTests.otherBody"]
    ),
    ("keys that are none", ["EnqueueBodyTests.badKeys"]),
    ("a version that was expected and is not there", ["EnqueueTests.expectedVersion", "BadInputTests.records"]),
    ("a create of what exists, a change of what does not", ["BadInputTests.records", "EnqueueTests.actions"]),
    ("a full queue, an app at its limit", ["BadInputTests.queueFull", "BadInputTests.appQuota"]),
    (
        "a full disk, a database that is read-only or damaged",
        ["BadInputTests.diskFull", "RecoveryTests.newer", "RecoveryTests.damaged"]
    ),
    (
        "a file that is none, too large, of another length or digest",
        ["BlobFilesTests.kinds", "BlobFilesTests.sparse", "BlobFilesTests.copies", "FilesTests.mismatch"]
    ),
    ("a time that an app sends: there is no such member", ["MutationBodyTests.refuses"]),
    ("a second agent on one state", ["CommandTests.second"]),
    (
        "what lies where the socket should be",
        [
            "SocketFileTests.staleSocket", "SocketFileTests.notASocket", "SocketFileTests.foreignSocket",
            "SocketFileTests.directories", "SocketFileTests.badPaths",
        ]
    ),
    ("verbs of an operator from an app", ["BadInputTests.matrix"]),

    // MARK: Configuration and command line
    ("a file that is none", ["ConfigurationFileTests.notAFile", "YAMLDocumentTests.refusals", "YAMLDocumentTests.tooLarge"]),
    ("unknown keys, wrong types, values out of range", ["ConfigurationLoaderTests.mistakes"]),
    ("contradictions", ["ConfigurationLoaderTests.acrossFiles", "EntitySettingsTests.contradictions"]),
    (
        "addresses that are none, or hold a password",
        ["ConfigurationLoaderTests.addresses", "ConfigurationValueTests.refusedAddresses"]
    ),
    ("secrets that others may read", ["SecretFilesTests.rules", "SecretFilesTests.kinds", "SecretFilesTests.token"]),
    ("a bad file at a reload", ["BadInputTests.badReload"]),
    ("a file that a power cut left empty", ["ConfigurationLastGoodTests.decision", "ConfigurationDiskTests.elsewhere"]),
    ("a bit that the disk has flipped in it", ["ConfigurationLastGoodTests.flippedBits", "ConfigurationDiskTests.flipped"]),
    ("slips on the command line", ["CommandTests.usage", "RepeatedOptionTests.theSecondOneIsFound"]),
    (
        "agentctl without an agent, with a cut or foreign answer",
        ["CommandTests.absent", "AgentClientTests.nonsense", "AgentClientTests.unreachable"]
    ),

    // MARK: Facts from the kernel
    (
        "supplies that come, go, are several or another's",
        ["PowerReaderTests.none", "PowerReaderTests.many", "PowerStateTests.rules"]
    ),
    ("values that are empty, absurd, not to be read", ["PowerReaderTests.hostile", "PowerStateTests.failed"]),
    ("a charge that goes up and down", ["PowerStateTests.hysteresis"]),
    ("netlink that cannot be had", ["HealthTests.unwatchedLinks", "UeventTests.everySoOften"]),
    (
        "netlink messages that cannot be",
        [
            "NetlinkMessageTests.truncated", "NetlinkMessageTests.lengths", "NetlinkMessageTests.hostile",
            "NetlinkMessageTests.errors",
        ]
    ),
    ("netlink messages from another process", ["LinkNamespaceTests.spoofedMessageIsDroppedAndCounted"]),
    ("an overrun, a storm of events", ["LinkNamespaceTests.overrun", "NetlinkMessageTests.pace", "LinkNamespaceTests.flaps"]),
    (
        "renamed and reused interfaces, odd names, none, 500",
        ["LinkNamespaceTests.deleted", "LeaseTests.reading", "NetlinkMessageTests.names", "NetlinkMessageTests.manyInterfaces"]
    ),
    ("carrier without address, route, probe", ["LinkSurveyTests.steps", "LinkNamespaceTests.address", "StandInTests.standIns"]),

    // MARK: The network and the hub
    (
        "a schema that never ends, refers to itself, or asks for rules that are not known",
        ["HostileSchemaTests.tooCostly", "HostileSchemaTests.levels", "SchemaReaderTests.circles", "SchemaReaderTests.words"]
    ),
    ("names that do not resolve, addresses of a portal", ["HTTPTransportContract.unresolved", "StandInTests.standIns"]),
    (
        "each step of a request that takes too long",
        ["TransportTimeTests.stall", "TransportTimeTests.connecting", "TransportTimeTests.drip"]
    ),
    (
        "certificates of another name, issuer, time, version",
        ["TransportTLSTests.trust", "HubTroubleTests.noAnswer", "TLSTests.versions"]
    ),
    ("200 from another server", ["HubTroubleTests.nonsense", "HubReplyTests.reads", "ProbeTests.page"]),
    ("redirects", ["HTTPTransportContract.redirect", "HubTroubleTests.nonsense", "ProbeTests.redirect"]),
    ("400 over a batch", ["EnginePoisonTests.malformed"]),
    ("401, 403", ["HubTroubleTests.nonsense", "EngineFailureTests.refusedCredentials"]),
    ("404, 405, 415, 426, 501", ["EngineFailureTests.refused"]),
    ("Retry-After in all its forms", ["HubReplyTests.retryAfter", "EngineFailureTests.retryAfter", "EngineFailureTests.date"]),
    ("another offset than ours", ["UploadMachineTests.row"]),
    ("an expired cursor", ["EngineCycleTests.expiredCursor", "SnapshotTests.pendingEdit"]),
    ("413", ["EnginePoisonTests.tooLarge"]),
    ("500, 502, 504, storms", ["EnginePoisonTests.failing", "EngineFailureTests.growing", "HerdTests.engines"]),
    ("heads without end, bad status lines, lengths that lie", ["HTTPTransportContract.refused", "HTTPTransportContract.excess"]),
    ("bombs, codings that were not asked for", ["TransportGzipTests.decodes", "ZlibCompressorTests.strict"]),
    (
        "a body without end, a reset within it",
        ["HTTPTransportContract.endless", "HTTPTransportContract.reset", "HTTPTransportContract.bodyLimit"]
    ),
    ("JSON that is not as agreed", ["SyncMessagesTests.badPush", "SyncMessagesTests.badPull", "HubTroubleTests.nonsense"]),
    ("results that are missing, foreign, twice", ["HubTroubleTests.changedResults", "HubTroubleTests.missingResult"]),
    ("an unknown verdict", ["SyncMessagesTests.unknownStatus"]),
    ("an older version than before, an old page", ["PullTests.older", "PullTests.idempotent"]),
    ("a cursor that stands still or goes back", ["EngineFailureTests.stuckCursor", "EngineResyncTests.badListing"]),
    ("a deletion under a pending edit", ["PullTests.onTop", "SnapshotTests.pendingEdit"]),
    ("a time of the hub that is nonsense", ["ClockOffsetTests.nonsense", "HubHeadersTests.nonsense"]),
    ("a hub that was restored", ["RecoveryTests.hubRestored", "EngineResyncTests.healed"]),
    ("a mirror that differs", ["EngineResyncTests.differs", "SnapshotTests.buckets"]),
    ("the answer to another request", ["HTTPTransportContract.excess", "EngineFailureTests.lateAnswer"]),
    (
        "an object store that is away, refuses, lies, rots, is no such store",
        [
            "ObjectBlobsTests.away", "ObjectBlobsTests.refused", "ObjectBlobsTests.altered", "ObjectBlobsTests.rotten",
            "ObjectStoreWordsTests.badXML", "ObjectStoreTests.away",
        ]
    ),
    (
        "offsets and digests of files that are wrong",
        ["UploadMachineTests.anything", "UploadMachineTests.restarts", "TusPeerTests.killedServer"]
    ),

    // MARK: Files and the database
    (
        "a database that is none, cut, overwritten",
        ["RescueTests.header", "RescueTests.cut", "RescueTests.flips", "RecoveryTests.damaged"]
    ),
    ("an empty database beside its marker", ["OpeningTests.lost", "OpeningTests.emptied"]),
    ("a log that is cut, flipped, another's", ["RescueTests.lostTail", "RescueTests.log", "RecoveryTests.lostTail"]),
    ("a row with a wrong checksum", ["DamageTests.payload", "DamageTests.record"]),
    (
        "a newer, an older, a foreign database",
        ["MigrationTests.newer", "MigrationTests.older", "MigrationTests.stepIsRepeated", "OpeningTests.foreign"]
    ),
    (
        "a state folder of another, on tmpfs, missing",
        ["StateDirectoryTests.refuses", "StateDirectoryTests.unsafeFolderIsLockedWithAWarning", "StateDirectoryTests.creates"]
    ),
    ("a read that fails, once or for good", ["MediumTests.opening", "MediumTests.work", "MediumTests.reader", "MediumTests.stays"]),
    ("a quota, the largest size of a file", ["MediumTests.quota", "MediumTests.quotaAtStart", "QuotaTests.fileSize"]),
    ("a FIFO in the place of a database or a kept file", ["MediumTests.noFile", "BlobFilesTests.otherKindsOfFilesCountAsDamage"]),
    ("a commit of unknown outcome", ["WriterTests.unknownOutcome", "WriterTests.rests"]),
    ("descriptors used up", ["HostileSurroundingsTests.descriptorsUsedUp"]),
    (
        "a state folder or database taken away while running",
        [
            "TakenAwayTests.removed", "TakenAwayTests.moved", "TakenAwayTests.replaced", "StateFolderTests.emptied",
            "StateFolderTests.moved",
        ]
    ),
    ("a database that another process holds", ["OpeningTests.locked"]),
    ("a disk that is read-only from the start", ["FullDiskTests.readOnlyStart"]),
    ("a file that is gone, or not what it was", ["BlobUploaderTests.missing", "BlobFilesTests.damaged"]),
    ("leftovers", ["DurableFilesTests.leftovers", "BlobFilesTests.strangers"]),
    ("a copied card", ["EngineResyncTests.twins", "ResyncTests.twins"]),

    // MARK: Time, process, machine
    ("1970, 2106, jumps", ["ClockTests.staysOnTheGround", "CapacityTests.wallJumps", "SnapshotTests.isDue"]),
    ("a suspend of days", ["EngineTriggerTests.clockChanged"]),
    ("ten years of uptime", ["HostileSurroundingsTests.tenYearsUp"]),
    ("signals", ["ProcessTests.signals", "ProcessTests.ignored", "KillTests.killed"]),
    ("a crash loop", ["SupervisionTests.safeMode", "HealthTests.safeMode"]),
    ("standard error that is closed or full", ["HostileSurroundingsTests.unreadLog"]),
    ("a hostile local user", ["ProcessTests.hardened", "BlobFilesTests.link", "SecretFilesTests.kinds"]),
    ("text that moves the cursor or forges a line", ["FormatTests.escaping", "PlainTextTests.safe", "EngineFailureTests.shown"]),
    ("secrets in what is shown", ["DiagnoseTests.bundle", "DiagnoseTests.canariesAreThere"]),
]

@Test("Each bad input has a test that there is")
func rowsAreHeld() throws {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let files = FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil)?.allObjects as? [URL] ?? []
    var texts: [String: String] = [:]
    for file in files where file.pathExtension == "swift" {
        texts[file.deletingPathExtension().lastPathComponent, default: ""] += try String(contentsOf: file, encoding: .utf8)
    }
    for row in rows {
        #expect(!row.tests.isEmpty, "\(row.input)")
        for name in row.tests {
            let parts = name.split(separator: ".").map(String.init)
            #expect(
                parts.count == 2 && texts[parts[0]]?.contains("func \(parts[1])(") == true, "\(row.input): there is no \(name)")
        }
    }
}
