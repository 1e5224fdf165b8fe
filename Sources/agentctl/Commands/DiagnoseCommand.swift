import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

struct DiagnoseCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "diagnose",
        abstract: "Write a diagnostics file for support: status, checks, configuration, events, bytes.",
        discussion: """
            It holds no document, no id of a record and no secret. It is a .tar.gz of at most 1 MB before packing. Look into it before \
            you send it: tar -tzf FILE
            """)

    @OptionGroup var global: GlobalOptions
    @Option(name: .shortAndLong, help: "File to write, or - for standard output. Default: agentd-DEVICE-TIME.tar.gz in this folder.")
    var output: String?

    func run(_ session: Session) async throws -> Int32 {
        let bytes = try await session.client.diagnose()
        if output == "-" {
            Output.bytes(bytes)
            return 0
        }
        let name: String
        if let output { name = output } else { name = try await usualName(session) }
        // It never overwrites a file, and only the owner may read it.
        let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            let number = errno
            let next = number == EEXIST ? ". It is not overwritten; name a new file: --output FILE" : ""
            throw CommandFailure.failed("file", "cannot write \(name): " + String(cString: strerror(number)) + next)
        }
        defer { close(descriptor) }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else {
                throw CommandFailure.failed("file", "cannot write \(name): " + String(cString: strerror(errno)))
            }
            rest = rest.dropFirst(max(0, count))
        }
        if session.isJSON {
            Output.line(JSON.object(["file": .string(name), "bytes": .int(bytes.count)]).json)
        } else {
            Output.line("\(name)  \(SizeText.readable(Int64(bytes.count)))")
        }
        return 0
    }

    private func usualName(_ session: Session) async throws -> String {
        let device = try await session.client.status().value.agent.device
        let time = RFC3339.text(SystemClocks().now().wall).prefix(19).filter { $0 != ":" && $0 != "-" }
        return "agentd-" + device.map { $0 == ":" || $0 == "/" ? "_" : String($0) }.joined() + "-\(time).tar.gz"
    }
}
