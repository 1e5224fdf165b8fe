import CSyncLinux
import SyncCore

/// Bytes that curl delivers and asks for.
extension CurlTransfer {
    func read(header line: UnsafeRawBufferPointer) -> Bool {
        clock.received(now: SystemClocks.instant())
        if !reader.hasBegun, idle != nil, let socket { KeptConnections.limit(socket, to: nil) }
        do throws(Refusal) {
            try reader.consume(line: line)
            return true
        } catch {
            return refuse(error.code, error.words)
        }
    }

    func read(body bytes: UnsafeRawBufferPointer) -> Bool {
        clock.received(now: SystemClocks.instant())
        do throws(Refusal) {
            if let bodyBegan, (200...299).contains(reader.status) { bodyBegan() }
            bodyBegan = nil
            try reader.consume(body: bytes)
            holdToRate(now: SystemClocks.instant())
            return !reader.isStopped
        } catch {
            return refuse(error.code, error.words)
        }
    }

    /// - Returns: Number of bytes that were put into `room`; 0 at the end; the code for a pause when there are none now; `nil` to give up.
    func nextBytes(into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let gate else { return give(room) }
        chargeRate(now: SystemClocks.instant())
        guard gate.limiter.isOpenUp else {
            paused |= CURLPAUSE_SEND
            return Int(CURL_READFUNC_PAUSE)
        }
        return give(UnsafeMutableRawBufferPointer(rebasing: room.prefix(gate.chunk)))
    }

    private func give(_ room: UnsafeMutableRawBufferPointer) -> Int? {
        let source: @Sendable (Int) -> [UInt8]?
        switch request.body {
        case .pieces(let next), .sized(_, let next): source = next
        case .bytes(let bytes):
            // Only a request with a rate comes here; curl has the other bodies in memory.
            let start = upload.given
            source = { start < bytes.count ? Array(bytes[start..<min(bytes.count, start.saturatingAdd($0))]) : nil }
        case .none: return 0
        }
        guard !upload.isSourceEmpty else { return 0 }
        if upload.piece.isEmpty {
            guard let piece = source(room.count) else {
                upload.isSourceEmpty = true
                guard upload.given >= upload.size ?? 0 else {
                    _ = refuse(.broken, "the source of the body ended after \(upload.given) bytes")
                    return nil
                }
                return 0
            }
            upload.given += piece.count
            // An empty piece would read as the end of the body, and make a part of it look whole.
            guard !piece.isEmpty else {
                _ = refuse(.broken, "the source of the body gave an empty piece")
                return nil
            }
            upload.piece = piece[...]
        }
        let part = upload.piece.prefix(room.count)
        room.copyBytes(from: part)
        upload.piece = upload.piece.dropFirst(part.count)
        return part.count
    }
}
