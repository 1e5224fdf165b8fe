import Foundation
package import Glibc

package struct SpawnFailure: Error, CustomStringConvertible {
    package let description: String
}

/// Starting programs. Foundation's `Process` takes a program for running while any process has one of the descriptors that it made, and
/// children of a server would keep one. So programs are started by hand here.
package enum Spawn {
    /// - Parameters:
    ///   - environment: Beside our own.
    ///   - log: Gets standard error, and standard output unless `output` is given.
    ///   - output: The writing end for standard output.
    ///   - input: The reading end for standard input, which is empty otherwise.
    package static func start(
        _ arguments: [String], environment: [String: String] = [:], log: String = "/dev/null", output: Int32? = nil,
        input: Int32? = nil
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 2, log, O_CREAT | O_WRONLY | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, output ?? 2, 1)
        // The thread that this runs on may hold signals back, and a program that clears nothing would never hear them.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let all = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0.key)=\($0.value)" }
        let argumentList = arguments.map { strdup($0) } + [nil]
        let environmentList = all.map { strdup($0) } + [nil]
        defer { (argumentList + environmentList).forEach { free($0) } }
        var child: pid_t = 0
        let error = posix_spawn(&child, arguments[0], &actions, &attributes, argumentList, environmentList)
        guard error == 0 else { throw SpawnFailure(description: "start \(arguments[0]): \(String(cString: strerror(error)))") }
        return child
    }
}
