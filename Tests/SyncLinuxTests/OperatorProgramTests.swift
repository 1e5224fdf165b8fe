import Foundation
import SyncCore
import SyncLinux
import Testing

@Suite("Programs of the operator")
struct OperatorProgramTests {
    private func run(_ path: String, _ argument: String, limit: Duration = .seconds(30)) async -> OperatorProgram.End {
        await withCheckedContinuation { continuation in
            OperatorProgram.run(path, argument: argument, limit: limit) { continuation.resume(returning: $0) }
        }
    }

    private func script(_ text: String, _ body: (String) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/program"
            try ("#!/bin/sh\n" + text).write(toFile: path, atomically: false, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
            try await body(path)
        }
    }

    @Test("It gets its argument as one word, and its status comes back")
    func status() async throws {
        try await script("test \"$#\" = 1 && exit \"$1\"; exit 99") { path in
            #expect(await run(path, "0") == .exited(0))
            #expect(await run(path, "7") == .exited(7))
            #expect(await run(path, "0; exit 3") != .exited(3))
        }
        #expect(OperatorProgram.End.exited(0).isGood && !OperatorProgram.End.exited(1).isGood)
    }

    @Test("It begins in /, without our descriptors, environment and blocked signals, and what it prints goes nowhere")
    func surroundings() async throws {
        let leaking = open("/etc/hostname", O_RDONLY)
        defer { close(leaking) }
        try await script(
            """
            # Before anything else is started: a shell blocks and unblocks signals around each program that it starts.
            while read -r name value; do
                case $name$value in SigBlk:*[!0]*) exit 5 ;; esac
            done < /proc/self/status
            echo noise; echo noise >&2; read -r line && exit 1
            test "$PWD" = / || exit 2
            ls -l /proc/$$/fd > "$0.files"
            grep -e '->' "$0.files" | grep -qv -e "-> /dev/null" -e "-> $0" && exit 3
            test -z "$HOME$USER$AGENTD_SOCKET" || exit 4
            exit 0
            """
        ) { path in
            #expect(await run(path, "x") == .exited(0))
        }
    }

    @Test("A program that takes too long is killed with its children; death by a signal and a missing program are reported")
    func slowKilledAndMissingProgramsAreToldApart() async throws {
        try await script("sleep 1000 & sleep 1000") { path in
            #expect(await run(path, "x", limit: .milliseconds(200)) == .tooLong(.milliseconds(200)))
        }
        try await script("kill -TERM $$") { path in
            #expect(await run(path, "x") == .killed(signal: 15))
        }
        guard case .notStarted(let why) = await run("/nonexistent/program", "x") else { return #expect(Bool(false)) }
        #expect(why.contains("No such file"))
    }
}
