import SyncCore
import SyncLinux

extension FuzzTarget {
    /// Datagrams of rtnetlink. Messages put together again are the datagram; a name is one that a path can have.
    static let netlink = FuzzTarget("netlink", lengthMax: 1_024) { bytes in
        let (messages, isWhole) = NetlinkMessage.all(in: bytes[...])
        try claim(messages.count <= bytes.count / NetlinkMessage.headerSize, "\(messages.count) messages in \(bytes.count) bytes")
        let used = messages.reduce(0) { $0 + (NetlinkMessage.headerSize + $1.payload.count + 3) & ~3 }
        try claim(!isWhole || used == bytes.count || used - bytes.count < 4, "\(used) bytes of \(bytes.count) were read")
        // Not at the start of an array, where an offset would be a byte too many or too few.
        let (moved, _) = NetlinkMessage.all(in: ([0xFF] + bytes)[1...])
        try claim(
            moved.count == messages.count
                && zip(moved, messages).allSatisfy { $0.type == $1.type && Array($0.payload) == Array($1.payload) },
            "depends on where the slice lies")
        for message in messages {
            _ = message.errorNumber
            if let link = LinkMessage(message) {
                try claim(
                    link.facts.index > 0 && !link.facts.name.isEmpty && !link.facts.name.contains("/"),
                    "a link \(link.facts.name)")
                try claim(link.facts.name.utf8.count < 200, "a name of \(link.facts.name.utf8.count) bytes")
            }
            if let address = AddressMessage(message) {
                try claim(address.index > 0 && !address.address.isEmpty, "an address of \(address.index)")
                try claim(
                    !address.address.hasPrefix("127.") && !address.address.hasPrefix("fe80:") && address.address != "::1",
                    "\(address.address) leads nowhere")
            }
            if let route = RouteMessage(message) {
                try claim(route.interfaces.allSatisfy { $0 > 0 }, "a route over \(route.interfaces)")
            }
        }
    }

    /// Uevents: both members or none, and written again the same.
    static let uevent = FuzzTarget("uevent", lengthMax: 1_024) { bytes in
        guard let event = Uevent(bytes[...]) else { return }
        try claim(!event.action.isEmpty && !event.subsystem.isEmpty, "an event without a word")
        let written = "\(event.action)@/devices/x\0ACTION=\(event.action)\0SUBSYSTEM=\(event.subsystem)\0"
        try claim(Uevent(Array(written.utf8)[...]) == event, "\(event) became another")
    }

    /// Values of `class/power_supply`: `NAME attribute value`, one a line. With all values of the gauges, the charge is 0 to 100 and a
    /// machine without a battery is on mains.
    static let sysfs = FuzzTarget("sysfs", lengthMax: 1_024) { bytes in
        var supplies: [String: [PowerSupplyReading.Attribute: PowerSupplyReading.Value]] = [:]
        for line in bytes.split(separator: 10) {
            let words = line.asText.split(separator: " ", maxSplits: 2).map(String.init)
            guard words.count >= 2, let attribute = PowerSupplyReading.Attribute(rawValue: words[1]) else { continue }
            supplies[words[0], default: [:]][attribute] = words.count == 2 ? .failed : .text(words[2])
        }
        let readings = supplies.sorted { $0.key < $1.key }.map { PowerSupplyReading(name: $0.key, $0.value) }
        var meter = PowerMeter()
        meter.update(readings, PowerThresholds(), now: Instant(nanoseconds: 1))
        if let state = PowerState(readings) {
            try claim((0...100).contains(state.percent ?? 0), "a charge of \(state.percent ?? 0) %")
            try claim(state.source != .battery || readings.contains(where: \.isBattery), "discharging without a battery")
            try claim(meter.state == state, "the meter says something else")
            let mirrored = PowerState(readings.reversed())
            try claim(mirrored == state, "the order of the supplies matters")
        }
        if let type = SysfsLinks.deviceType(in: bytes) {
            try claim((1...56).contains(type.utf8.count), "a type of \(type.utf8.count) bytes")
        }
    }

    /// Lease files, whose content came from a network: a portal's address is one that a person can be shown.
    static let lease = FuzzTarget("lease") { bytes in
        for hints in [LeaseText.keyed(bytes), LeaseText.blocks(bytes, interface: "wwan0")].compactMap(\.self) {
            guard let portal = hints.portalURI else { continue }
            try claim(CaptivePortal.isPortalURL(portal), "a portal at \(portal)")
            try claim(portal.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }, "a portal with blanks or control characters")
        }
    }
}
