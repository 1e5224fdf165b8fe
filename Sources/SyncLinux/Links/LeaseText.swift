package import SyncCore

/// Parses the lease files of DHCP clients. The content came from the network, so parsing accepts any bytes and ends with hints or without.
package enum LeaseText {
    /// Parses systemd-networkd's lease file, and NetworkManager's where it still has that form: `KEY=VALUE` lines, with binary options in
    /// hexadecimal.
    package static func keyed(_ bytes: [UInt8]) -> LeaseHints {
        var hints = LeaseHints()
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            guard let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let value = line[(equals + 1)...]
            switch String(decoding: line[..<equals], as: UTF8.self) {
            case "VENDOR_SPECIFIC", "OPTION_43": hints.isMetered = saysMetered(bytes: hexadecimal(value) ?? Array(value))
            case "CAPTIVE_PORTAL": hints.portalURI = portal(Array(value))
            case "OPTION_114": hints.portalURI = portal(hexadecimal(value) ?? Array(value))
            default: break
            }
        }
        return hints
    }

    /// Parses dhclient.leases(5): blocks of `lease { interface "eth0"; option NAME VALUE; … }`, the newest last. A value is quoted text or
    /// bytes in hexadecimal with colons.
    ///
    /// - Returns: The hints of the last whole block for this interface; `nil` when there is none.
    package static func blocks(_ bytes: [UInt8], interface: String) -> LeaseHints? {
        var newest: LeaseHints?
        var block: (hints: LeaseHints, isOurs: Bool)?
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let text = String(decoding: line, as: UTF8.self).trimmingSpaces
            if text.hasPrefix("lease"), text.hasSuffix("{") {
                block = (LeaseHints(), false)
            } else if text == "}" {
                if let block, block.isOurs { newest = block.hints }
                block = nil
            } else if text.hasSuffix(";"), block != nil {
                let words = text.dropLast().split(separator: " ", maxSplits: 2).map(String.init)
                switch (words.first, words.count) {
                case ("interface"?, 2): block?.isOurs = words[1] == "\"\(interface)\""
                case ("option"?, 3):
                    switch words[1] {
                    case "vendor-encapsulated-options", "unknown-43":
                        block?.hints.isMetered = saysMetered(bytes: value(words[2]))
                    // Option 114 under its names: the one of RFC 3679 and those of RFC 8910.
                    case "default-url", "v4-captive-portal", "captive-portal", "unknown-114":
                        block?.hints.portalURI = portal(value(words[2]))
                    default: break
                    }
                default: break
                }
            }
        }
        return newest
    }

    /// Android sends this text as its option 43. NetworkManager searches for it anywhere in the option, and so does the agent.
    private static let metered = Array("ANDROID_METERED".utf8)

    private static func saysMetered(bytes: [UInt8]) -> Bool {
        guard bytes.count >= metered.count else { return false }
        return (0...(bytes.count - metered.count)).contains { bytes[$0..<($0 + metered.count)].elementsEqual(metered) }
    }

    private static func portal(_ bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        return CaptivePortal.isPortalURL(text) ? text : nil
    }

    private static func value(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        if bytes.count >= 2, bytes.first == UInt8(ascii: "\""), bytes.last == UInt8(ascii: "\"") {
            return Array(bytes.dropFirst().dropLast())
        }
        var result: [UInt8] = []
        for part in text.split(separator: ":", omittingEmptySubsequences: false) {
            guard part.utf8.count <= 2, let byte = UInt8(part, radix: 16) else { return bytes }
            result.append(byte)
        }
        return result
    }

    private static func hexadecimal(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count % 2 == 0, !text.isEmpty else { return nil }
        var result: [UInt8] = []
        var index = text.startIndex
        while index < text.endIndex {
            guard let byte = UInt8(String(decoding: text[index..<(index + 2)], as: UTF8.self), radix: 16),
                text[index] != UInt8(ascii: "+"), text[index] != UInt8(ascii: "-")
            else { return nil }
            result.append(byte)
            index += 2
        }
        return result
    }
}
