package import SyncCore

/// The `data` of each type of event.
package enum EventPayload {
    package static func mutation(
        _ key: MutationKey, seq: Int64, state: MutationState, record: RecordName, problem: Problem?, into: MutationKey?
    ) -> [UInt8] {
        object { writer in
            writer.member("id", key.text)
            writer.member("seq", seq)
            writer.member("state", state.name)
            writer.member("entity", record.entity.text)
            writer.member("record_id", record.id.text)
            if let problem {
                writer.name("problem")
                problem.writeNote(to: &writer)
            }
            writer.member("into", into?.text)
        }
    }

    /// - Parameters:
    ///   - isDeletion: The record was removed from the view.
    ///   - isRevoked: The reason is that the record has left the share of this device.
    ///   - isRemote: The change came from the hub.
    package static func record(
        _ record: RecordName, isDeletion: Bool, isRevoked: Bool = false, isRemote: Bool, version: Int64,
        status: RecordSnapshot.SyncStatus
    ) -> [UInt8] {
        object { writer in
            writer.member("entity", record.entity.text)
            writer.member("id", record.id.text)
            writer.member("change", isDeletion ? "delete" : "upsert")
            if isRevoked { writer.member("reason", Problem.revoked) }
            writer.member("source", isRemote ? "remote" : "local")
            writer.member("version", version)
            writer.member("sync_status", status.name)
        }
    }

    /// - Parameters:
    ///   - phase: `began` or `ended`.
    ///   - result: `ok` or the failure; `nil` while it is running.
    package static func sync(
        cycle: String, phase: String, result: String?, pulled: Int64, pushed: Int64, bytesUp: Int64, bytesDown: Int64
    ) -> [UInt8] {
        object { writer in
            writer.member("cycle", cycle)
            writer.member("phase", phase)
            writer.member("result", result)
            writer.member("pulled", pulled)
            writer.member("pushed", pushed)
            writer.members("bytes") { writer in
                writer.member("up", bytesUp)
                writer.member("down", bytesDown)
            }
        }
    }

    /// - Parameters:
    ///   - state: Progress of the link: `absent`, `down`, `carrier`, `addressed`, `routed`, …
    ///   - cause: Code of the change: `link_up`, `carrier_lost`, …
    package static func link(name: String, state: String, cause: String) -> [UInt8] {
        object { writer in
            writer.member("name", name)
            writer.member("state", state)
            writer.member("cause", cause)
        }
    }

    /// - Parameter portalURL: Address for a login, when a captive portal has named one.
    package static func connectivity(
        from: Reachability, to: Reachability, cause: String, portalURL: String? = nil
    ) -> [UInt8] {
        object { writer in
            writer.member("from", from.rawValue)
            writer.member("to", to.rawValue)
            writer.member("cause", cause)
            writer.member("portal_url", portalURL)
        }
    }

    package static func power(_ state: PowerState) -> [UInt8] {
        object { writer in
            writer.member("level", state.level)
            writer.name("percent")
            if let percent = state.percent { writer.int(percent) } else { writer.null() }
            writer.member("source", state.source)
        }
    }

    package static func policy(_ traffic: TrafficClass, _ verdict: Verdict) -> [UInt8] {
        object { writer in
            writer.member("class", traffic.name)
            switch verdict {
            case .allow: writer.member("verdict", "allow")
            case .defer(let deferral):
                writer.member("verdict", "defer")
                writer.member("reason", deferral.reason.rawValue)
                writer.time("until", deferral.until)
            }
        }
    }

    package static func config(version: Int64, changed: [String]) -> [UInt8] {
        object { writer in
            writer.member("version", version)
            writer.member("changed", JSON.list(changed))
        }
    }

    /// - Parameter state: `trying`, `proven` or `reverted`.
    package static func trial(_ state: String, _ keys: [String]) -> [UInt8] {
        object { writer in
            writer.member("trial", state)
            writer.member("changed", JSON.list(keys))
        }
    }

    /// An alarm for a person: a code for programs and a sentence for people.
    package static func attention(code: String, detail: String) -> [UInt8] {
        object { writer in
            writer.member("code", code)
            writer.member("detail", detail)
        }
    }

    private static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        return writer.bytes
    }
}
