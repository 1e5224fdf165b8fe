import Glibc
import HubServer
import SyncCore
import SyncLinux

/// The hub that does an operator's work on a database: the one that serves a folder, or this process itself.
///
/// Only one process may write an SQLite file. So a command asks the hub that serves the folder, and opens the database itself where none
/// does. A server's database is open to all.
enum HubAtHand {
    case serving(HubSocket)
    /// - Parameter lock: Keeps a hub from serving the folder meanwhile; `nil`: replicas may serve the database.
    case own(Hub, lock: StateDirectory?)

    init(_ folder: DataFolder) throws {
        if let hub = try folder.sharedHub(.command) {
            self = .own(hub, lock: nil)
        } else if let socket = try HubSocket.connect(folder) {
            self = .serving(socket)
        } else {
            let lock = try Self.lock(folder)
            do {
                let hub = try Hub(.file(folder.file), settings: .command, random: SeededRandom(seed: systemRandomSeed()))
                self = .own(hub, lock: lock)
            } catch {
                lock.close()
                throw error
            }
        }
    }

    private static func lock(_ folder: DataFolder) throws -> StateDirectory {
        do throws(LinuxError) {
            return try StateDirectory.open(folder.folder, calls: LinuxFileCalls(), userID: geteuid())
        } catch {
            guard error.code == .inUse else { throw Failure(error) }
            let bytes = folder.socket.utf8.count
            let cause =
                bytes > HubSocket.longestPath
                ? "the path of its socket, \(folder.socket), would have \(bytes) bytes, and the limit is \(HubSocket.longestPath). "
                    + "Give the hub a folder with a shorter path, or stop it for this command"
                : "it does not answer at \(folder.socket). It may be about to start or to end: try again, and see its log"
            throw Failure(75, "\(error). A hub serves the folder, and \(cause)")
        }
    }

    func close() {
        switch self {
        case .serving(let socket): socket.close()
        case .own(let hub, let lock):
            guard let lock else { return }
            hub.checkpoint()
            lock.close()
        }
    }
}

// MARK: Publishing

extension HubAtHand {
    /// The reason why a set of records was not published.
    struct PublishFailure: Error {
        /// Exit status.
        var status: Int32
        /// The line that is the reason; `nil`: there is another one.
        var line: Int?
        var detail: String
        /// `false`: the hub may have published the set, and its answer was lost.
        var isCertain = true
    }

    /// Publishes a set of records, all of it or nothing.
    ///
    /// - Parameter firstLine: The number of the first line in its file, for messages.
    func publish(_ lines: [UInt8], firstLine: Int, to entity: EntityName) throws(PublishFailure) -> Hub.Published {
        switch self {
        case .serving(let socket): return try Self.publish(lines, firstLine: firstLine, to: entity, by: socket)
        case .own(let hub, _):
            do throws(Hub.PublishFailure) {
                return try hub.publish(PublishedLines(lines, firstLine: firstLine), to: entity, at: SystemClocks().now().wall)
            } catch {
                switch error {
                case .line(let fault): throw PublishFailure(status: 65, line: fault.line, detail: fault.detail)
                case .hub(let error):
                    let failure = Failure(error)
                    throw PublishFailure(status: failure.status, detail: failure.text)
                }
            }
        }
    }

    private static func publish(
        _ lines: [UInt8], firstLine: Int, to entity: EntityName, by socket: HubSocket
    ) throws(PublishFailure) -> Hub.Published {
        switch socket.post("/v1/operator/publish?entity=\(entity)&line=\(firstLine)", lines) {
        case .success(let answer):
            // A body that cannot be read is no count.
            if answer.status == 200, let object = (try? JSONReader.read(answer.body))?.object, let count = object["published"]?.int {
                let (unshared, head) = (object["unshared"]?.int ?? 0, object["head"]?.int ?? 0)
                return Hub.Published(count: Int(clamping: count), unshared: Int(clamping: unshared), head: head)
            }
            let problem = Problem(answer)
            guard let line = problem.members["line"]?.int else { throw PublishFailure(status: 73, detail: problem.detail) }
            throw PublishFailure(status: 65, line: Int(clamping: line), detail: problem.detail)
        case .failure(let error):
            throw PublishFailure(status: 74, detail: "the hub gave no answer: \(error)", isCertain: error.code == .unreachable)
        }
    }
}

// MARK: Entities

extension HubAtHand {
    /// The settings that count; `nil`: none were ever applied.
    func newestEntities(in folder: DataFolder) throws -> EntityGeneration? {
        switch self {
        case .serving: try folder.inspector().entities()
        case .own(let hub, _): try hub.newestEntities()
        }
    }

    /// Makes settings count.
    ///
    /// - Parameter over: The number of the generation with which they were compared; 0: none counted.
    /// - Returns: The generation that counts, and whether it is a new one.
    func apply(
        _ wanted: EntityText, over: Int64, droppingScopes: Bool
    ) throws(Failure) -> (generation: Int64, isNew: Bool) {
        switch self {
        case .serving(let socket):
            let body: JSONObject = [
                "text": .string(wanted.text), "name": .string(wanted.name), "by": .string(wanted.by), "over": .int(over),
                "drop_scopes": .bool(droppingScopes),
            ]
            switch socket.post("/v1/operator/entities", JSON.object(body).bytes) {
            case .success(let answer):
                // A body that cannot be read names no generation.
                if answer.status == 200, let body = (try? JSONReader.read(answer.body))?.object, let number = body["generation"]?.int {
                    return (number, body["applied"]?.bool == true)
                }
                throw Failure(answer.status == 503 ? 73 : answer.status == 409 ? 75 : 78, Problem(answer).detail)
            case .failure(let error):
                throw Failure(74, "the hub gave no answer: \(error). To see the settings in force: agenthub entities history")
            }
        case .own(let hub, _):
            do throws(EntityFailure) {
                let outcome = try hub.apply(wanted, over: over, droppingScopes: droppingScopes)
                return (outcome.generation, outcome == .applied(generation: outcome.generation))
            } catch {
                switch error {
                case .settings: throw Failure(78, error.detail)
                case .superseded: throw Failure(75, error.detail)
                case .hub(let error): throw Failure(error)
                }
            }
        }
    }
}

extension Hub.Settings {
    /// For a command that changes a database which a hub serves: the settings of entities are those that the database has.
    static var command: Hub.Settings {
        var settings = Hub.Settings.adopting
        settings.readEntities = EntitiesFile.reader
        return settings
    }
}
