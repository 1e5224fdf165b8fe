import SyncCore
import SyncLinux

extension FuzzTarget {
    /// Header fields of tus, one a line. What is read writes back; no address leads to another origin.
    static let tus = FuzzTarget("tus", lengthMax: 2_048) { bytes in
        for line in bytes.split(separator: 10) {
            let text = line.asText
            if let count = Tus.count(text) { try claim(count >= 0, "a length of \(count)") }
            if let pairs: [String: String] = Tus.metadata(text) {
                try claim(pairs.count <= 32, "\(pairs.count) pairs")
                let written: String = Tus.metadata(pairs.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
                let same: [String: String]? = Tus.metadata(written)
                try claim(same == pairs, "\(text) became \(written)")
            }
            if let sum = Tus.checksum(text) {
                let written = sum.algorithm + " " + Base64.encode(sum.bytes)
                try claim(Tus.checksum(written).map { $0.algorithm == sum.algorithm && $0.bytes == sum.bytes } == true, "\(text) became \(written)")
            }
            for base in ["https://hub.example.com/v1/files", "http://127.0.0.1:8080/v1/files?x=1"] {
                guard let place = Tus.location(text, base: base) else { continue }
                let origin = base.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)[2].split(separator: "/")[0]
                let scheme = base.split(separator: ":")[0]
                try claim(place.hasPrefix("\(scheme)://\(origin)/"), "\(text) leads to \(place)")
                try claim(!place.split(separator: "?")[0].split(separator: "/").contains(".."), "\(text) leads up: \(place)")
                try claim(Tus.location(place, base: base) == place, "\(place) is another place the second time")
            }
            _ = Placeholder.waiting(in: (try? JSONReader.read(Array(line)))?.object ?? [:])
        }
    }

    /// gzip from outside: never more than the limits, and what comes out packs and opens again.
    static let gunzip = FuzzTarget("gunzip") { bytes in
        let gzip = ZlibCompressor()
        for (most, ratio) in [(256, 1_000), (1 << 20, 20), (1 << 20, 1_000)] {
            guard let opened = gzip.gunzip(bytes, maxBytes: most, maxRatio: ratio) else { continue }
            try claim(opened.count <= most, "\(opened.count) bytes where \(most) were allowed")
            try claim(opened.count <= bytes.count * ratio, "\(bytes.count) bytes became \(opened.count)")
        }
        guard let packed = gzip.gzip(bytes) else { return }
        try claim(packed.count < bytes.count, "packed to more than it was")
        try claim(gzip.gunzip(packed, maxBytes: bytes.count, maxRatio: 2_000) == bytes, "packed and opened, other bytes")
    }
}
