extension PushResult {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("idempotency_key", key.text)
            switch verdict {
            case .accepted(let version, let serverID, let record, let merged):
                writer.member("status", "accepted")
                writer.member("version", version)
                writer.member("server_id", serverID)
                writer.member("record", record?.json)
                if !merged.isEmpty { writer.member("merged", JSON.list(merged)) }
                if !notes.kept.isEmpty { writer.member("kept", JSON.object(notes.kept)) }
                if notes.hasLeft { writer.member("left", true) }
            case .duplicate(let original, let current):
                writer.member("status", "duplicate")
                writer.member("original", original.rawValue)
                writer.member("current", current.json)
                writer.member("problem", notes.problem?.json(prefix: Problem.hubPrefix))
                if !notes.fields.isEmpty { writer.member("fields", JSON.list(notes.fields)) }
            case .conflict(let fields, let current):
                writer.member("status", "conflict")
                writer.member("fields", JSON.list(fields))
                writer.member("current", current.json)
            case .rejected(let problem, let current):
                writer.member("status", "rejected")
                writer.member("problem", problem.json(prefix: Problem.hubPrefix))
                writer.member("current", current?.json)
            case .retry(let problem, let after):
                writer.member("status", "retry")
                writer.member("problem", problem?.json(prefix: Problem.hubPrefix))
                if let after { writer.member("retry_after", Int64(after.components.seconds)) }
            }
            if notes.isClockClamped { writer.member("clock_clamped", true) }
        }
    }

    static func read(_ json: JSON, at pointer: String) throws(ReplyError) -> PushResult {
        guard let object = json.object else { throw ReplyError(pointer, "an object") }
        guard let key = object["idempotency_key"]?.text.flatMap({ MutationKey($0) }) else {
            throw ReplyError(pointer + "/idempotency_key", "an idempotency key")
        }
        guard let status = object["status"]?.text else { throw ReplyError(pointer + "/status", "a string") }
        return PushResult(key: key, verdict: try verdict(status, object, at: pointer), notes: notes(status, object))
    }

    /// Read leniently: notes are for people, and no reason to refuse an answer.
    private static func notes(_ status: String, _ object: JSONObject) -> Notes {
        var notes = Notes()
        notes.isClockClamped = object["clock_clamped"]?.bool == true
        if status == "accepted" {
            notes.kept = object["kept"]?.object ?? [:]
            notes.hasLeft = object["left"]?.bool == true
        }
        if status == "duplicate" {
            if let problem = object["problem"], problem.object != nil { notes.problem = Problem(problem) }
            notes.fields = (object["fields"]?.array ?? []).compactMap(\.text)
        }
        return notes
    }

    private static func verdict(
        _ status: String, _ object: JSONObject, at pointer: String
    ) throws(ReplyError) -> Verdict {
        switch status {
        case "accepted":
            let version = try ReplyReader.version(object["version"], pointer + "/version")
            var record: HubRecord?
            if let json = object["record"], !json.isNull { record = try HubRecord.read(json, at: pointer + "/record") }
            return .accepted(
                version: version, serverID: try ReplyReader.optionalText(object["server_id"], pointer + "/server_id"),
                record: record, merged: try ReplyReader.texts(object["merged"], pointer + "/merged"))
        case "duplicate":
            guard let original = object["original"]?.text.flatMap({ Original(rawValue: $0) }) else {
                throw ReplyError(pointer + "/original", "accepted, rejected or conflict")
            }
            return .duplicate(original: original, current: try HubState.read(object["current"], at: pointer + "/current"))
        case "conflict":
            return .conflict(
                fields: try ReplyReader.texts(object["fields"], pointer + "/fields"),
                current: try HubState.read(object["current"], at: pointer + "/current"))
        case "rejected":
            guard let problem = object["problem"], problem.object != nil else {
                throw ReplyError(pointer + "/problem", "an object")
            }
            var current: HubState?
            if let json = object["current"] { current = try HubState.read(json, at: pointer + "/current") }
            return .rejected(Problem(problem), current: current)
        case "retry":
            var after: Duration?
            if let seconds = object["retry_after"]?.double, seconds > 0 { after = .seconds(min(seconds, 86_400)) }
            return .retry(object["problem"].map { Problem($0) }, after: after)
        default:
            // A newer hub may send status words unknown here. A retry later loses nothing.
            let problem = Problem("unknown-status", status: 0, detail: "the hub answered with the status \"\(status.prefix(64))\"")
            return .retry(problem, after: nil)
        }
    }
}

extension HubRecord {
    package var json: JSON {
        var object: JSONObject = ["version": .int(version), "data": .object(data)]
        if let hlc { object["hlc"] = .string(hlc) }
        if let fieldHLC, !fieldHLC.isEmpty { object["field_hlc"] = .object(fieldHLC) }
        if let fieldOrigins, !fieldOrigins.isEmpty { object["field_origin"] = .object(fieldOrigins) }
        return .object(object)
    }

    static func read(_ json: JSON, at pointer: String) throws(ReplyError) -> HubRecord {
        guard let object = json.object else { throw ReplyError(pointer, "an object") }
        guard let data = object["data"]?.object else { throw ReplyError(pointer + "/data", "an object") }
        var fieldHLC: JSONObject?
        if let json = object["field_hlc"], !json.isNull {
            guard let stamps = json.object else { throw ReplyError(pointer + "/field_hlc", "an object") }
            fieldHLC = stamps
        }
        return HubRecord(
            version: try ReplyReader.version(object["version"], pointer + "/version"), data: data,
            hlc: try ReplyReader.optionalText(object["hlc"], pointer + "/hlc"), fieldHLC: fieldHLC,
            // For people: a value that is no object is no reason to refuse an answer.
            fieldOrigins: object["field_origin"]?.object)
    }
}

extension HubState {
    package var json: JSON {
        switch self {
        case .record(let record): record.json
        case .deleted(let version): ["deleted": true, "version": .int(version)]
        case .absent: .null
        }
    }

    package static func read(_ json: JSON?, at pointer: String) throws(ReplyError) -> HubState {
        guard let json, !json.isNull else { return .absent }
        if json.object?["deleted"]?.bool == true {
            return .deleted(version: try ReplyReader.version(json.object?["version"], pointer + "/version"))
        }
        return .record(try HubRecord.read(json, at: pointer))
    }
}

/// Readers of answers, each with the place and the expectation in its error.
enum ReplyReader {
    static func object(_ body: [UInt8]) throws(ReplyError) -> JSONObject {
        let json: JSON
        do throws(JSONError) {
            json = try JSONReader.read(body, limits: .answer)
        } catch {
            throw ReplyError("", "JSON, but " + error.description)
        }
        guard case .object(let object) = json else { throw ReplyError("", "an object") }
        return object
    }

    static func version(_ json: JSON?, _ pointer: String) throws(ReplyError) -> Int64 {
        guard let version = json?.int, version >= 0, version <= 1 << 53 else {
            throw ReplyError(pointer, "a version from 0 to 2^53")
        }
        return version
    }

    static func optionalText(_ json: JSON?, _ pointer: String) throws(ReplyError) -> String? {
        guard let json, !json.isNull else { return nil }
        guard let text = json.text else { throw ReplyError(pointer, "a string") }
        return text
    }

    /// A missing list is empty. Any other value is an error: it would hide the intended elements.
    static func list(_ json: JSON?, _ pointer: String) throws(ReplyError) -> [JSON] {
        guard let json, !json.isNull else { return [] }
        guard let array = json.array else { throw ReplyError(pointer, "an array") }
        return array
    }

    static func texts(_ json: JSON?, _ pointer: String) throws(ReplyError) -> [String] {
        guard let json, !json.isNull else { return [] }
        guard let array = json.array else { throw ReplyError(pointer, "an array") }
        var texts: [String] = []
        for element in array {
            guard let text = element.text else { throw ReplyError(pointer, "an array of strings") }
            texts.append(text)
        }
        return texts
    }
}
