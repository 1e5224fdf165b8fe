// swift-tools-version: 6.2
import PackageDescription

// An app of its own that uses the library EdgeSync. EDGE_SYNC_SOURCE names the checkout of the agent if this folder was copied to
// another place. An app with a checkout of its own writes that path here.
let source = Context.environment["EDGE_SYNC_SOURCE"] ?? "../../.."

let package = Package(
    name: "example",
    dependencies: [.package(name: "EdgeSyncAgent", path: source)],
    targets: [
        .executableTarget(name: "example", dependencies: [.product(name: "EdgeSync", package: "EdgeSyncAgent")])
    ]
)
