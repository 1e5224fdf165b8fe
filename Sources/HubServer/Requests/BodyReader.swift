import SyncCore

/// Reads the bodies of requests. It needs no database, so any thread can do it.
struct BodyReader: Sendable {
    /// `nil`: bodies are not compressed.
    let compressor: (any Compressor)?

    /// Returns the body without its content coding.
    func body(of request: HubRequest) throws(HubRefusal) -> [UInt8] {
        guard try isCompressed(request) else {
            guard request.body.count <= Limits.hubRequestBytes else { throw HubRefusal(Hub.bodyTooLarge) }
            return request.body
        }
        // Not 413, even for a decompression bomb: a mutation that was damaged in transit must not be given up as too large. An agent sends
        // it once more uncompressed, and then learns the exact error.
        guard let inflated = inflated(request.body, bytesMax: Limits.hubRequestBytes) else {
            throw HubRefusal(
                Problem("malformed", status: 400, detail: "the body is not complete, valid gzip, or inflates beyond the limit"))
        }
        return inflated
    }

    /// Reads the body of a push; `nil`: the request is none.
    func push(in request: HubRequest) -> ReadPush? {
        guard isPush(request) else { return nil }
        do throws(HubRefusal) {
            return read(try body(of: request))
        } catch {
            return ReadPush(outcome: .failure(error), bytes: 0)
        }
    }

    /// Reads the body of a push in advance, on the thread of its connection, because the thread of the database has enough to do.
    ///
    /// - Returns: `nil`: the request is none, its coding is wrong, or it has more than ``ReadPush/earlyMax`` bytes.
    func earlyPush(in request: HubRequest) -> ReadPush? {
        guard isPush(request), request.body.count <= ReadPush.earlyMax else { return nil }
        do throws(HubRefusal) {
            guard try isCompressed(request) else { return read(request.body) }
            return inflated(request.body, bytesMax: ReadPush.earlyMax).map(read)
        } catch {
            // It is refused in its turn, like one that does not inflate.
            return nil
        }
    }

    private func isPush(_ request: HubRequest) -> Bool { request.method == "POST" && Endpoint.find(request.path) == .push }

    private func isCompressed(_ request: HubRequest) throws(HubRefusal) -> Bool {
        let coding = request.headers["Content-Encoding"] ?? "identity"
        if asciiCaseEqual(coding, "identity") { return false }
        if asciiCaseEqual(coding, "gzip"), compressor != nil { return true }
        var response = HubResponse(
            Problem("encoding-unsupported", status: 415, detail: "this hub cannot read Content-Encoding: \(coding.prefix(32))"))
        response.headers["Accept-Encoding"] = compressor == nil ? "identity" : "gzip, identity"
        throw HubRefusal(response)
    }

    private func inflated(_ body: [UInt8], bytesMax: Int) -> [UInt8]? {
        compressor?.gunzip(body, maxBytes: bytesMax, maxRatio: Limits.inflateRatio)
    }

    private func read(_ body: [UInt8]) -> ReadPush {
        do throws(Problem) {
            return ReadPush(outcome: .success(try PushMessages.readRequest(body)), bytes: body.count)
        } catch {
            return ReadPush(outcome: .failure(HubRefusal(error)), bytes: 0)
        }
    }
}

/// The body of a push.
struct ReadPush: Sendable {
    let outcome: Result<IncomingPush, HubRefusal>
    /// Inflated.
    let bytes: Int

    /// Limits of the pushes of one group, unless it is one push: the rows that they read and write are in memory at one time.
    static let mutationsMax = 1_000
    /// The same for a decision without the lock of the hub, which has a commit of its own: usual pushes of one turn share it.
    static let decidedMax = 2_000
    static let bytesMax = 8 << 20
    /// Largest body that is read before its turn, inflated. All requests that the hub admits at one time may have read theirs.
    static let earlyMax = 64 << 10

    var items: [IncomingItem] {
        if case .success(let push) = outcome { push.items } else { [] }
    }
}
