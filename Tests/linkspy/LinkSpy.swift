import SyncCore
import SyncLinux

/// Prints the table of links as one line of JSON at once and after each change; for tests in network namespaces of their own.
///
///     linkspy [--sysfs ROOT] [--leases ROOT] [--buffer BYTES] [HUB_ADDRESS…]
///
/// Lines from standard input: `look ADDRESS…` gives other addresses of the hub, `counts` prints what the monitor met. It ends
/// with standard input.
@main
enum LinkSpy {
    static func main() throws {
        var settings = NetlinkMonitor.Settings()
        // A second look would find what an event should have told.
        settings.leaseDelay = nil
        var addresses: [String] = []
        var arguments = CommandLine.arguments.dropFirst()
        while let argument = arguments.popFirst() {
            switch argument {
            case "--sysfs": settings.sysfsRoot = arguments.popFirst() ?? ""
            case "--leases": settings.leaseRoot = arguments.popFirst() ?? ""
            case "--buffer": settings.receiveBytes = arguments.popFirst().flatMap { Int32($0) } ?? 0
            default: addresses.append(argument)
            }
        }
        let monitor = try NetlinkMonitor(settings) { error in write("{\"error\":true} \(error)") }
        monitor.watch(hubAddresses: addresses) { table in write(line(table)) }
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            switch words.first {
            case "look"?: monitor.look(for: Array(words.dropFirst()))
            case "counts"?:
                let counts = monitor.counts
                write("{\"readings\":\(counts.readings),\"overruns\":\(counts.overruns),\"dropped\":\(counts.dropped)}")
            default: break
            }
        }
        monitor.stop()
    }

    private static func write(_ line: String) {
        // One write, so that lines of several programs on one pipe do not mix.
        Output.write(line + "\n")
    }

    private static func line(_ table: LinkTable) -> String {
        let survey = LinkSurvey(table, now: Instant(nanoseconds: 0))
        var json = JSONWriter()
        json.object { json in
            json.name("uplink")
            if let uplink = survey.uplink { json.string(uplink.name) } else { json.null() }
            json.name("links")
            json.array { json in
                for (facts, judged) in zip(table.links, survey.links) {
                    json.object { json in
                        json.name("name")
                        json.string(facts.name)
                        json.name("kind")
                        json.string(judged.kind.rawValue)
                        json.name("state")
                        json.string(judged.state.rawValue)
                        json.name("metered_by")
                        json.string(judged.cost.evidence.rawValue)
                        json.name("metered")
                        json.bool(judged.cost.isMetered)
                        json.name("devtype")
                        if let type = facts.deviceType { json.string(type) } else { json.null() }
                        json.name("addresses")
                        json.array { json in
                            for address in facts.addresses { json.string(address) }
                        }
                    }
                }
            }
        }
        return String(decoding: json.bytes, as: UTF8.self)
    }
}
