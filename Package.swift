// swift-tools-version: 6.2
import PackageDescription

// The layers and the one purpose of each target are in deploy/docs/development.md, "Map of the code"; which modules a target may
// import is in Sources/README.md, "Map". ImportTableTests holds every import line and that page to one table, because the build
// alone does not hold them.

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

// Rules that a simulation must be able to switch off, to prove that it would notice (SyncCore/Ablation.swift).
// They exist in debug builds, and in a release build that asks for them, which is that of `deploy/test`; never in a shipped program.
let isForTests = Context.environment["ABLATIONS"] != nil
let ablations: [SwiftSetting] = isForTests ? [.define("ABLATIONS")] : [.define("ABLATIONS", .when(configuration: .debug))]

// What the simulation is made of is optimised in debug builds too: generics of the standard library that are not
// specialised make it several times slower, and what it costs is the number of histories that can be looked at.
// As a whole module: file by file the optimiser reads the rest of the module again for each group of files, and SyncCore takes
// 420 seconds of a processor instead of 170.
let quick: [SwiftSetting] = [.unsafeFlags(["-O", "-whole-module-optimization", "-num-threads", "2"], .when(configuration: .debug))]

// What libFuzzer needs in every part that it should see into; only `deploy/fuzz` asks for it, with a scratch path of its own.
let fuzzes = Context.environment["FUZZ"] != nil

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioSSL: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

// One target and what it needs, for quick work on a part: FOCUS=SyncStore,SyncStoreTests swift test.
let focus = Context.environment["FOCUS"]?.split(separator: ",").map(String.init)

let package = Package(
    name: "EdgeSyncAgent",
    products: [
        .executable(name: "agentd", targets: ["agentd"]),
        .executable(name: "agentctl", targets: ["agentctl"]),
        .executable(name: "agenthub", targets: ["agenthub"]),
        .executable(name: "agentbench", targets: ["agentbench"]),
        // For apps on the gateway. It needs nothing else of this package, so an app that uses it builds nothing else.
        .library(name: "EdgeSync", targets: ["EdgeSync"]),
        // Loaded before the C library by the tests of power cuts and failing disks; nothing links it.
        .library(name: "powercut", type: .dynamic, targets: ["powercut"]),
        // Preloaded by the soak and the tests of a year: moves the clocks of one program.
        .library(name: "clockwarp", type: .dynamic, targets: ["CClockWarp"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
    ],
    targets: [
        // C modules: headers, thin shims, and the way to files that seals pages.
        .target(name: "CSQLite", linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(name: "CPostgres", linkerSettings: [.linkedLibrary("pq")]),
        .target(name: "CYAML", linkerSettings: [.linkedLibrary("yaml")]),
        // The C half of the measurements: floors and load without a line of the product.
        .target(
            name: "CBenchFloors", cSettings: [.define("_GNU_SOURCE")],
            linkerSettings: [.linkedLibrary("sqlite3"), .linkedLibrary("curl"), .linkedLibrary("z")]),
        // The floor of the hub on PostgreSQL. A target of its own, so that peerbench, which shares CBenchFloors, is built without libpq.
        .target(name: "CPostgresFloor", dependencies: ["CBenchFloors"], linkerSettings: [.linkedLibrary("pq")]),
        .target(name: "CClockWarp", path: "Tests/CClockWarp", cSettings: [.define("_GNU_SOURCE")]),
        .target(name: "CSyncThreads"),
        .target(name: "CSyncLinux", linkerSettings: ["curl", "z", "ssl", "crypto"].map { .linkedLibrary($0) }),

        // Core: pure, values in, values out.
        .target(name: "SyncCore", swiftSettings: strict + ablations + quick),

        // Threads and waiting for them. It knows nothing of the rest.
        .target(name: "SyncThreads", dependencies: ["CSyncThreads"], swiftSettings: strict + quick),

        // One connection to SQLite, for the store and the hub.
        .target(name: "SyncSQLite", dependencies: ["SyncCore", "CSQLite"], swiftSettings: strict + quick),

        // Adapters: one technology each.
        .target(name: "SyncStore", dependencies: ["SyncCore", "SyncThreads", "SyncSQLite"], swiftSettings: strict + ablations + quick),
        .target(name: "SyncLinux", dependencies: ["SyncCore", "SyncThreads", "CSyncLinux", logging], swiftSettings: strict),
        .target(name: "SyncHTTP", dependencies: ["CSyncLinux", nio, nioPosix, nioHTTP1], swiftSettings: strict),
        .target(name: "SyncYAML", dependencies: ["SyncCore", "CYAML"], swiftSettings: strict),
        .target(name: "LocalAPI", dependencies: ["SyncCore"], swiftSettings: strict),

        // The client for apps: the only target with a public interface.
        .target(name: "EdgeSync", swiftSettings: strict),

        // Shells: perform effects, serve HTTP.
        .target(
            name: "Agent",
            dependencies: ["SyncCore", "SyncStore", "SyncHTTP", "SyncYAML", "LocalAPI", nio, nioPosix, nioHTTP1, logging],
            swiftSettings: strict),
        .target(
            name: "HubServer", dependencies: ["SyncCore", "SyncHTTP", "SyncSQLite", nio, nioPosix, nioHTTP1, nioSSL, logging],
            swiftSettings: strict + ablations + quick),

        // Holds any server against the protocol, over whatever transport it is handed.
        .target(name: "HubConformance", dependencies: ["SyncCore"], swiftSettings: strict),

        // What a program that measures the agent needs: the agent under test, floors, load, times and tables.
        .target(
            name: "BenchKit", dependencies: ["LocalAPI", "SyncCore", "CBenchFloors", arguments], swiftSettings: strict),

        // The hub's other engine. A target of its own, so that of the shipped programs only agenthub needs libpq.
        .target(
            name: "HubPostgres", dependencies: ["HubServer", "CPostgres"], swiftSettings: strict + ablations + quick),

        // Programs: parse arguments, build, run. A target names every module that it imports. SwiftPM compiles a target again only when a
        // module changes that the target names; otherwise its code would go by the old sizes of that module's classes.
        .executableTarget(
            name: "agentd",
            dependencies: [
                "Agent", "LocalAPI", "SyncCore", "SyncHTTP", "SyncLinux", "SyncStore", "SyncThreads", "SyncYAML", nio, nioPosix, arguments,
                logging,
            ],
            swiftSettings: strict + ablations),
        .executableTarget(
            name: "agentctl", dependencies: ["LocalAPI", "SyncLinux", "SyncCore", arguments], swiftSettings: strict),
        .executableTarget(
            name: "agenthub",
            dependencies: ["HubServer", "HubPostgres", "HubConformance", "SyncYAML", "SyncLinux", "SyncCore", arguments, logging],
            swiftSettings: strict + ablations),
        .executableTarget(
            name: "agentbench", dependencies: ["BenchKit", "LocalAPI", "SyncCore", "CBenchFloors", "CPostgresFloor", arguments],
            swiftSettings: strict),

        // Tests.
        // What must hold for each reader of bytes from outside; run by FuzzTests with the corpus, and by `fuzz` with libFuzzer.
        .target(
            name: "FuzzKit",
            dependencies: [
                "Agent", "LocalAPI", "SyncHTTP", "SyncLinux", "SyncStore", "SyncYAML", "SyncCore", "CSyncLinux", nio, nioEmbedded,
            ],
            path: "Tests/FuzzKit", swiftSettings: strict),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzKit"], exclude: ["Corpus"], swiftSettings: strict),
        .target(
            name: "SimulationKit", dependencies: ["SyncCore", "SyncStore", "SyncThreads", "HubServer", "VersionsKit", "StorageKit"],
            path: "Tests/SimulationKit",
            swiftSettings: strict + ablations + quick),
        // Numbers from outside that break arithmetic, put into every message.
        .target(name: "NumbersKit", dependencies: ["SyncCore"], path: "Tests/NumbersKit", swiftSettings: strict),
        // The files of a hub in memory.
        .target(name: "StorageKit", dependencies: ["SyncCore"], path: "Tests/StorageKit", swiftSettings: strict + quick),
        // A server whose versions are counters of each record, made of a hub.
        .target(name: "VersionsKit", dependencies: ["SyncCore"], path: "Tests/VersionsKit", swiftSettings: strict),
        // The worked examples of deploy/api/PROTOCOL.md, for the tests of each side.
        .target(name: "ExampleKit", dependencies: ["SyncCore"], path: "Tests/ExampleKit", swiftSettings: strict),
        // Databases of new agents, for tests that open many stores.
        .target(name: "StoreKit", dependencies: ["SyncStore"], path: "Tests/StoreKit", swiftSettings: strict),
        .testTarget(name: "ArchitectureTests", swiftSettings: strict),
        // Complains when a fake server of the tests is asked the same without end.
        .target(name: "RepetitionOracle", path: "Tests/RepetitionOracle", swiftSettings: strict),
        .testTarget(
            name: "SyncCoreTests", dependencies: ["SyncCore", "RepetitionOracle"], exclude: ["Schema/JSONSchemaTestSuite"],
            swiftSettings: strict + ablations),
        .testTarget(name: "SyncThreadsTests", dependencies: ["SyncThreads"], swiftSettings: strict),
        .testTarget(name: "SyncSQLiteTests", dependencies: ["SyncSQLite", "CSQLite"], swiftSettings: strict),
        .testTarget(
            name: "SyncStoreTests", dependencies: ["SyncStore", "SyncCore", "ExampleKit", "StoreKit", "ProcessStand", "CSQLite"],
            swiftSettings: strict + ablations),
        // Starts programs of others, and finds ports and folders for tests.
        .target(name: "CProcessStand", path: "Tests/CProcessStand"),
        .target(name: "ProcessStand", dependencies: ["CProcessStand"], path: "Tests/ProcessStand", swiftSettings: strict),
        // A PostgreSQL server of the tests' own.
        .target(name: "PostgresStand", dependencies: ["CPostgres", "ProcessStand"], path: "Tests/PostgresStand", swiftSettings: strict),
        // An object store of the tests' own.
        .target(
            name: "ObjectStand", dependencies: ["SyncCore", "SyncLinux", "ProcessStand"], path: "Tests/ObjectStand", swiftSettings: strict),
        // Measures the agent beside brokers and other programs that keep messages (deploy/compare).
        .target(name: "CPeers", dependencies: ["CBenchFloors"], path: "Tests/CPeers", cSettings: [.define("_GNU_SOURCE")]),
        .executableTarget(
            name: "peerbench", dependencies: ["BenchKit", "CPeers", "CBenchFloors", "SyncCore", arguments], path: "Tests/peerbench",
            swiftSettings: strict),
        // Watches the links of a network namespace that a test has made.
        .executableTarget(name: "linkspy", dependencies: ["SyncLinux", "SyncCore"], path: "Tests/linkspy", swiftSettings: strict),
        .testTarget(
            name: "SyncLinuxTests", dependencies: ["SyncLinux", "SyncHTTP", "SyncCore", "linkspy"], swiftSettings: strict),
        .testTarget(
            name: "SyncHTTPTests", dependencies: ["SyncHTTP", "CSyncLinux", "ProcessStand", nio, nioPosix, nioHTTP1],
            swiftSettings: strict),
        .testTarget(name: "SyncYAMLTests", dependencies: ["SyncYAML", "SyncCore"], swiftSettings: strict),
        .testTarget(name: "EdgeSyncTests", dependencies: ["EdgeSync"], swiftSettings: strict),
        .testTarget(name: "LocalAPITests", dependencies: ["LocalAPI", "SyncCore"], swiftSettings: strict),
        .testTarget(
            name: "HubServerTests",
            dependencies: [
                "HubServer", "HubPostgres", "HubConformance", "PostgresStand", "ObjectStand", "SyncHTTP", "SyncLinux", "SyncSQLite",
                "SyncStore", "SyncYAML", "SyncCore", "NumbersKit", "ExampleKit", "StorageKit", "StoreKit", "VersionsKit", nio, nioPosix,
                nioSSL, logging,
            ],
            exclude: ["Certificates"], swiftSettings: strict + ablations),
        .testTarget(
            name: "AgentTests",
            dependencies: [
                "Agent", "HubServer", "LocalAPI", "SyncHTTP", "SyncLinux", "SyncStore", "SyncYAML", "SyncCore", "CSyncLinux",
                "NumbersKit", "ProcessStand", "RepetitionOracle", nio, nioPosix, logging,
            ],
            swiftSettings: strict),
        .testTarget(name: "SimulationTests", dependencies: ["SimulationKit", "SyncCore"], swiftSettings: strict + ablations),
        // Power cuts and failing disks: what sees the calls of a program, and what a cut can leave of them. Never instrumented:
        // whatever a watched program starts loads it too, and has no sanitizer, such as the one that finds names for a report.
        .target(
            name: "powercut", path: "Tests/powercut", cSettings: [.define("_GNU_SOURCE"), .unsafeFlags(["-fno-sanitize=all"])],
            linkerSettings: [.linkedLibrary("dl")]),
        .target(name: "PowerCutKit", dependencies: ["SyncCore"], path: "Tests/PowerCutKit", swiftSettings: strict + quick),
        // Stands in the hub's place in a network namespace that a test has made.
        .executableTarget(name: "standin", path: "Tests/standin", swiftSettings: strict),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "SyncCore", "SyncStore", "SyncLinux", "SyncYAML", "CSyncLinux", "LocalAPI", "EdgeSync", "ProcessStand", "PostgresStand",
                "ObjectStand", "PowerCutKit", "RepetitionOracle", "standin",
            ],
            exclude: ["Stand/backend.py", "Kept"],
            swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)

// `deploy/test` builds with optimisation, so that what it tests is what people run. The tests themselves stay as they are written: to
// optimise them takes longer than to run them. The same is true of what only tests use, of the command lines, and of what reads a
// configuration, words an answer, or measures: it computes little, and its optimisation takes four to ten times as long as the rest of its
// compilation. The modules with the threads, memory and files of the agent and the hub are optimised, and what simulations run.
// Of four modules, tests see what is internal.
if isForTests {
    let plain: Set = [
        "LocalAPI", "SyncYAML", "EdgeSync", "HubConformance", "BenchKit", "agentbench", "agentctl", "agentd", "agenthub", "peerbench",
    ]
    let simulated: Set = ["SimulationKit", "StorageKit", "VersionsKit", "PowerCutKit"]
    for target in package.targets where target.name.first != "C" {
        let isOfTests = target.path?.hasPrefix("Tests/") == true && !simulated.contains(target.name) || target.type == .test
        if isOfTests || plain.contains(target.name) { add(["-Onone"], to: target) }
        if ["Agent", "HubServer", "SyncCore", "SyncStore"].contains(target.name) { add(["-enable-testing"], to: target) }
    }
}

func add(_ flags: [String], to target: Target) {
    target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(flags, .when(configuration: .release))]
}

if fuzzes {
    let flags = ["-sanitize=fuzzer,address"]
    for target in package.targets where target.type == .regular && target.name.first != "C" {
        target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(flags)]
    }
    package.targets += [
        .target(name: "CFuzz", path: "Tests/CFuzz"),
        .executableTarget(
            name: "fuzz", dependencies: ["CFuzz", "FuzzKit"], path: "Tests/fuzz", swiftSettings: strict + [.unsafeFlags(flags)],
            linkerSettings: [.unsafeFlags(flags)]),
    ]
}

if let focus {
    func name(_ dependency: Target.Dependency) -> String? {
        switch dependency {
        case .byNameItem(let name, _), .targetItem(let name, _): name
        default: nil
        }
    }
    var wanted = Set(focus)
    while true {
        let more = package.targets.filter { wanted.contains($0.name) }.flatMap { $0.dependencies.compactMap(name) }
        if wanted.isSuperset(of: more) { break }
        wanted.formUnion(more)
    }
    package.targets.removeAll { !wanted.contains($0.name) }
    package.products.removeAll { product in
        let targets = (product as? Product.Executable)?.targets ?? (product as? Product.Library)?.targets ?? []
        return !wanted.isSuperset(of: targets)
    }
    // An app that uses the library needs none of them, so its build fetches nothing. Other parts keep them, because this folder's own
    // checkouts would be removed otherwise.
    if focus == ["EdgeSync"] { package.dependencies = [] }
}
