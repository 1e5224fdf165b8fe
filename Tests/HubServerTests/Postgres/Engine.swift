import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// The database of a hub's rows. The contract is one, so the tests of it are one: a suite with the trait `.eachEngine` runs each of its
/// tests once for each of these.
enum Engine: String, CaseIterable {
    case sqlite, postgres

    @TaskLocal static var current = Engine.sqlite

    /// `EDGE_SYNC_ENGINE=postgres` looks at one alone, to see whose a failure is.
    static var tried: [Engine] {
        let all = allCases.filter { $0 == .sqlite || PostgresServer.isInstalled }
        return ProcessInfo.processInfo.environment["EDGE_SYNC_ENGINE"].flatMap { Engine(rawValue: $0) }.map { [$0] } ?? all
    }

    /// A database with nothing in it.
    func newPlace() throws -> Hub.Place {
        switch self {
        case .sqlite: .memory
        case .postgres: .shared(try PostgresPlace.unhurried(try PostgresServer.shared.get().newURL()))
        }
    }
}

struct EachEngine: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        guard testCase != nil else { return try await function() }
        for engine in Engine.tried { try await Engine.$current.withValue(engine) { try await function() } }
    }
}

extension Trait where Self == EachEngine {
    /// Runs the test with SQLite, and with PostgreSQL where its server is installed.
    static var eachEngine: Self { EachEngine() }
}

extension Trait where Self == ConditionTrait {
    static var needsPostgres: Self { .enabled(if: PostgresServer.isInstalled, "no PostgreSQL server program here") }
}
