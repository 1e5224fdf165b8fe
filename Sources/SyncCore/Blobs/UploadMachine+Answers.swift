/// The meaning of an answer, by the request that it belongs to.
extension UploadMachine {
    mutating func lookedUp(_ said: Reply) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isHub else { return said.foreign }
            guard said.digest == digest else { return .wait(counts: true, asked: nil, why: "the hub answered about another digest") }
            isSpared = knowledge != .whole
            return .done(isVerified: true)
        case 404:
            guard said.isHub else { return said.foreign }
            // By the server's own answer, all bytes were there a moment ago. Without counting, they would be sent again for ever.
            if knowledge == .whole { return mismatch("the hub said that all had arrived, and does not know the file", isWrong: false) }
            knowledge = .absent
            return .next
        // An older hub: the file is uploaded without a lookup.
        case 405, 501:
            if knowledge == .whole {
                return .wait(counts: true, asked: said.asked, why: "the hub does not tell the digest of its bytes (\(said.status))")
            }
            knowledge = .absent
            return .next
        default: return said.trouble
        }
    }

    mutating func created(_ said: Reply, _ count: Int64, _ server: Server) -> Outcome {
        switch said.status {
        case 201:
            guard said.isTus else { return said.foreign }
            guard let text = said.location, let url = Tus.location(text, base: server.files) else {
                return .wait(counts: true, asked: nil, why: "the server made the upload at another origin, or did not say where")
            }
            progress.url = url
            progress.offset = 0
            progress.expiresAt = said.expires
            sentTo = count
            // A server that accepts no bytes with the creation does not mention them.
            let taken = count > 0 ? said.offset : 0
            guard let taken else {
                knowledge = .unsure
                return .next
            }
            guard taken <= count else { return mismatch("the server claims bytes that were not sent", isWrong: false) }
            return reached(taken, said, server)
        case 413:
            // A proxy before it may limit requests; only the server itself can limit files.
            guard said.isOwn else {
                wantsSmallerPiece = true
                tooLarge = Int(clamping: count)
                return .wait(counts: true, asked: said.asked, why: "the server's proxy takes no request of this size\(said.hint)")
            }
            return .failed(code: "too-large", why: "the server takes no file of \(size) bytes\(said.hint)")
        case 422 where said.isMismatch: return mismatch("the digest was wrong when all had arrived")
        case 507: return .wait(counts: false, asked: said.asked, why: "the server has no room\(said.hint)")
        default: return said.trouble
        }
    }

    mutating func told(_ said: Reply, _ server: Server) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isTus else { return said.foreign }
            guard let offset = said.offset else { return .wait(counts: true, asked: nil, why: "the server did not tell the offset") }
            if let length = said.length, length != size { return mismatch("the upload has \(length) bytes there", isWrong: false) }
            guard offset <= min(size, sentTo) else { return mismatch("the server has more than was sent", isWrong: false) }
            progress.expiresAt = said.expires ?? progress.expiresAt
            doubtfulLosses = 0
            return reached(offset, said, server)
        case 404, 410: return vanished(said)
        default: return said.trouble
        }
    }

    mutating func sent(_ said: Reply, _ offset: Int64, _ count: Int64, _ server: Server) -> Outcome {
        sentTo = max(sentTo, offset + count)
        switch said.status {
        case 200, 204:
            guard said.isTus else {
                unsure()
                return said.foreign
            }
            progress.expiresAt = said.expires ?? progress.expiresAt
            guard let reached = said.offset, reached >= offset, reached <= offset + count else {
                knowledge = .unsure
                return .next
            }
            return self.reached(reached, said, server)
        case 404, 410: return vanished(said)
        case 409, 423, 503:
            unsure()
            // The upload may be used by sent bytes, or by another connection of ours that the server still holds.
            return .wait(counts: false, asked: said.asked, why: "the server is busy with this upload (\(said.status))")
        case 413:
            unsure()
            wantsSmallerPiece = true
            tooLarge = Int(clamping: count)
            return .wait(counts: true, asked: said.asked, why: "the server takes no piece of \(count) bytes")
        case 422 where said.isMismatch: return mismatch("the digest was wrong when all had arrived")
        case 460:
            unsure()
            return .wait(counts: true, asked: nil, why: "a piece was changed on its way")
        default:
            unsure()
            return said.trouble
        }
    }

    mutating func verified(_ said: Reply, _ server: Server) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isHub || said.isTus else { return said.foreign }
            guard let found = said.digest else { return .done(isVerified: false) }
            return found == digest ? .done(isVerified: true) : mismatch("the server has other bytes (\(found))")
        case 404, 410: return vanished(said)
        default: return said.trouble
        }
    }

    mutating func destroyed(_ said: Reply) -> Outcome {
        guard (200..<500).contains(said.status), ![408, 421, 423, 425, 429].contains(said.status) else { return said.trouble }
        // The upload was destroyed, or the server does not destroy uploads: it is forgotten here, and expires there.
        forget()
        knowledge = .absent
        return .next
    }
}
