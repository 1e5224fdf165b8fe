import ArgumentParser
import HubServer
import SyncCore

/// `agenthub stats`: counts the content of the hub, also beside a running server.
struct StatsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Count devices, records, mutations and duplicates.")

    @OptionGroup var folder: DataFolder
    @Flag(help: "Also read every record, to find those that the hub cannot read.") var check = false
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let inspector = try folder.inspector()
        let stats: HubStats
        do throws(HubError) {
            stats = try inspector.stats(checksRecords: check)
        } catch {
            throw Failure(error)
        }
        try Say.result(json ? stats.json.json : StatsCommand.text(stats))
    }

    private static func text(_ stats: HubStats) -> String {
        var lines = [
            "head \(stats.head), epoch \(stats.epoch)",
            history(stats.lineage),
            "mutations  \(stats.counters.words); \(PlainText.count(stats.keys, "key")) remembered",
            "devices    \(stats.devices.count)",
        ]
        let deviceWidth = stats.devices.map(\.id.text.utf8.count).max() ?? 0
        for device in stats.devices {
            var line = "  \(PlainText.padded(device.id.text, to: deviceWidth))  \(device.counters.applied) applied, seen \(device.lastSeen)"
            if device.clones > 1 { line += ", \(device.clones) times another database took turns: is this identity used twice?" }
            lines.append(line)
        }
        lines.append("entities   \(stats.entities.count)")
        let entityWidth = stats.entities.map(\.name.text.utf8.count).max() ?? 0
        for entity in stats.entities {
            lines.append(
                "  \(PlainText.padded(entity.name.text, to: entityWidth))  \(PlainText.count(entity.records, "record")), "
                    + "\(entity.tombstones) deleted, \(entity.bytes) bytes")
        }
        for (name, events) in stats.events.sorted(by: { $0.key < $1.key }) { lines.append("  \(name): \(events.words)") }
        if let until = stats.clock.waitsUntil {
            lines.append(
                "  no events are removed: the clock of the hub jumped from \(stats.clock.believed?.description ?? "an unknown time") to "
                    + "\(stats.clock.seen?.description ?? "another"). Set it right; else they are removed from \(until) on")
        }
        lines.append("blobs      \(stats.blobs), \(stats.blobBytes) bytes")
        lines.append("damaged    " + damaged(stats.damaged))
        return lines.joined(separator: "\n")
    }

    private static func damaged(_ damaged: DamagedRecords?) -> String {
        guard let damaged else { return "not checked; agenthub stats --check reads every record" }
        if damaged.count == 0 { return "no record" }
        let shown = damaged.first.prefix(8).map { PlainText.safe("\($0.record) (\($0.detail))") }
        let rest = damaged.count > Int64(shown.count) ? ", …" : ""
        return "\(PlainText.count(damaged.count, "record")) that cannot be read: \(shown.joined(separator: ", "))\(rest). Changes of them "
            + "wait, and no device gets them, until they are published again or restored from a backup. To list all: agenthub lost"
    }

    private static func history(_ lineage: HubLineage) -> String {
        let since = lineage.began.map { " since \($0)" } ?? ""
        guard let restart = lineage.restart else { return "history    the first one of this database\(since)" }
        let device = restart.device.map { ", shown by \($0)" } ?? ""
        return "history    a new one\(since), from commit \(restart.head): \(restart.cause.sentence)\(device)"
    }
}
