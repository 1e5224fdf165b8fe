import ArgumentParser
import HubServer
import SyncCore

/// `agenthub diagnostics list|show`: shows the devices' reports after an outage, also beside a running server.
struct DiagnosticsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diagnostics", abstract: "Show the reports that devices sent after an outage.",
        subcommands: [ListReports.self, ShowReports.self])
}

struct ListReports: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the reports: number, time, device and state.")

    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let reports = try folder.reports()
        if json {
            return try Say.result(
                JSON.array(
                    reports.map { report in
                        [
                            "n": .int(report.number), "device": .string(report.device.text), "at": .string(report.at.description),
                            "summary": report.summary ?? .null,
                        ]
                    }
                ).json)
        }
        if reports.isEmpty { Say.error("no device has sent a report") }
        for report in reports {
            let summary = report.summary?.object
            let reasons = summary?["reasons"]?.array?.compactMap(\.text).joined(separator: ", ") ?? ""
            let level = summary?["level"]?.text ?? "unknown"
            try Say.result(
                "\(report.number)  \(report.at)  \(report.device)  \(level)\(reasons.isEmpty ? "" : ": " + reasons)  "
                    + "\(report.lines.utf8.count) bytes")
        }
    }
}

struct ShowReports: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Print a device's latest report as the device sent it.")

    @Argument(help: .device) var device: DeviceID
    @Option(help: "Number of another report than the latest.") var number: Int64?
    @OptionGroup var folder: DataFolder

    func run() throws {
        let reports = try folder.reports(of: device)
        guard let report = number.map({ wanted in reports.first { $0.number == wanted } }) ?? reports.last else {
            let wanted = number.map { " with the number \($0)" } ?? ""
            throw Failure(66, "\(device) has sent no report\(wanted). To list the reports: agenthub diagnostics list")
        }
        // Every line is JSON, which has no control characters in it.
        var lines = report.lines[...]
        while lines.last == "\n" { lines.removeLast() }
        try Say.result(String(lines))
    }
}

extension DataFolder {
    fileprivate func reports(of device: DeviceID? = nil) throws -> [HubReport] {
        let inspector = try inspector()
        do throws(HubError) {
            return try inspector.reports(of: device)
        } catch {
            throw Failure(error)
        }
    }
}

extension HubReport {
    /// `nil` for a report of an unknown kind, which is printed as it came.
    fileprivate var summary: JSON? {
        // An unreadable line has no summary, and is printed as it came.
        lines.split(separator: "\n").first.flatMap { try? JSONReader.read(String($0)) }
    }
}
