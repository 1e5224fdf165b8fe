import Foundation
import SyncCore
import SyncLinux
import Testing

@Suite("Power supplies of sysfs")
struct PowerReaderTests {
    /// A folder laid out like sysfs: `class/power_supply/NAME` are links into `devices`.
    private func write(_ root: String, _ files: [String: String]) throws {
        for (path, text) in files {
            let file = root + "/" + path
            try FileManager.default.createDirectory(
                atPath: (file as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
        }
    }

    @Test("A laptop: battery and charger, with the newline of every file taken off")
    func laptop() async throws {
        try await withTemporaryDirectory { root in
            try write(
                root,
                [
                    "class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "0\n",
                    "class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/present": "1\n",
                    "class/power_supply/BAT0/status": "Discharging\n", "class/power_supply/BAT0/energy_now": "12000000\n",
                    "class/power_supply/BAT0/energy_full": "48000000\n", "class/power_supply/BAT0/capacity": "99\n",
                ])
            let readings = try #require(PowerReader(sysfsRoot: root).read())
            #expect(readings.map(\.name) == ["AC", "BAT0"])
            #expect(readings[0][.online] == .text("0"))
            #expect(readings[0][.capacity] == .absent)
            #expect(PowerState(readings) == PowerState(source: .battery, percent: 25))
        }
    }

    @Test("A machine without supplies is on mains, and a root that does not exist is one")
    func none() async throws {
        try await withTemporaryDirectory { root in
            #expect(PowerReader(sysfsRoot: root).read() == [])
            #expect(PowerReader(sysfsRoot: root + "/missing").read() == [])
            try FileManager.default.createDirectory(atPath: root + "/class/power_supply", withIntermediateDirectories: true)
            #expect(PowerReader(sysfsRoot: root).read() == [])
        }
    }

    @Test("Hostile files are absent values: huge, binary, empty, folders, pipes, loops of links")
    func hostile() async throws {
        try await withTemporaryDirectory { root in
            let battery = root + "/class/power_supply/BAT0"
            try write(
                root,
                [
                    "class/power_supply/BAT0/type": "Battery", "class/power_supply/BAT0/status": String(repeating: "x", count: 100_000),
                    "class/power_supply/BAT0/capacity": "\u{0}\u{1}50", "class/power_supply/BAT0/energy_now": "\n",
                    "class/power_supply/BAT0/energy_full/folder": "",
                ])
            #expect(mkfifo(battery + "/charge_now", 0o600) == 0)
            #expect(symlink("scope", battery + "/scope") == 0)
            #expect(symlink("loop", root + "/class/power_supply/loop") == 0)
            let readings = try #require(PowerReader(sysfsRoot: root).read())
            let found = try #require(readings.first { $0.name == "BAT0" })
            #expect(found[.type] == .text("Battery"))
            for attribute in PowerSupplyReading.Attribute.allCases where attribute != .type {
                #expect(found[attribute] == .absent, "\(attribute)")
            }
            #expect(PowerState(readings) == PowerState(source: .battery), "a battery that says nothing discharges")
        }
    }

    @Test("No more supplies are looked at than a device can have")
    func many() async throws {
        try await withTemporaryDirectory { root in
            var files: [String: String] = [:]
            for number in 0..<200 { files["class/power_supply/BAT\(number)/type"] = "Battery\n" }
            try write(root, files)
            #expect(PowerReader(sysfsRoot: root).read()?.count == PowerReader.maxSupplies)
        }
    }

    @Test(
        "A USB supply is a source only while its own Type-C port gives power",
        arguments: [
            ("[source] sink", true), ("source", true), ("source [sink]", false), ("sink", false), ("", false),
        ])
    func typeC(_ role: String, _ isSource: Bool) async throws {
        try await withTemporaryDirectory { root in
            try write(
                root,
                [
                    "devices/usbc/power_supply/ucsi/type": "USB\n", "devices/usbc/power_supply/ucsi/online": "1\n",
                    "devices/usbc/typec/port0/power_role": role + "\n", "devices/other/typec/port1/power_role": "[source] sink\n",
                    "class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/status": "Discharging\n",
                    "class/typec/.keep": "",
                ])
            #expect(symlink("../..", root + "/devices/usbc/power_supply/ucsi/device") == 0)
            #expect(symlink(root + "/devices/usbc/power_supply/ucsi", root + "/class/power_supply/ucsi") == 0)
            #expect(symlink(root + "/devices/usbc/typec/port0", root + "/class/typec/port0") == 0)
            #expect(symlink(root + "/devices/other/typec/port1", root + "/class/typec/port1") == 0)
            let readings = try #require(PowerReader(sysfsRoot: root).read())
            #expect(readings.first { $0.name == "ucsi" }?.isTypeCSource == isSource)
            #expect(PowerState(readings)?.source == (isSource ? .battery : .mains))
        }
    }
}
