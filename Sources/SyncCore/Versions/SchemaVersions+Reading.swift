extension SchemaVersions {
    /// The keys of a version.
    private static let keys = ["schema", "up", "down"]

    /// Reads the keys `schema` (a number), `versions` and `accepts` of an entity.
    ///
    /// - Parameter present: The value of `schema`.
    package init(reading present: Int, versions json: JSON?, accepts: JSON?) throws(Fault) {
        guard let members = json?.object?.members, !members.isEmpty else {
            throw Fault(path: ["versions"], problem: "is missing", expected: "the versions up to \(present), because schema is a number")
        }
        guard members.count <= Self.countMax else {
            throw Fault(path: ["versions"], problem: "has \(members.count) versions", expected: "at most \(Self.countMax)")
        }
        var versions: [Int: Version] = [:]
        for member in members {
            let path = ["versions", member.name.text]
            guard let number = Int(member.name.text), Self.range.contains(number), String(number) == member.name.text else {
                throw Fault(path: path, problem: "is no version", expected: "a whole number from 1")
            }
            versions[number] = try Self.version(member.value, path)
        }
        try self.init(present: present, versions: versions, accepts: try Self.numbers(accepts))
    }

    private static func version(_ json: JSON, _ path: [String]) throws(Fault) -> Version {
        guard let object = json.object else { throw Fault(path: path, problem: "is \(json.kind)", expected: "the keys schema, up, down") }
        for name in object.names where !keys.contains(name) {
            let nearest = nearestName(to: name, among: keys).map { ", did you mean \($0)?" } ?? ""
            throw Fault(path: path + [name], problem: "is not a key of a version\(nearest)", expected: "schema, up or down")
        }
        var version = Version()
        if let schema = object["schema"], !schema.isNull {
            do throws(Problem) {
                version.schema = try DocumentSchema(schema)
            } catch {
                let fault = error.errors.first
                throw Fault(
                    path: path + ["schema"] + JSONPointer.names(of: fault?.pointer ?? ""), problem: fault?.detail ?? error.detail)
            }
        }
        version.up = try steps(object["up"], path + ["up"]) ?? []
        version.down = try steps(object["down"], path + ["down"])
        return version
    }

    private static func steps(_ json: JSON?, _ path: [String]) throws(Fault) -> SchemaSteps? {
        guard let json, !json.isNull else { return nil }
        do throws(SchemaSteps.Fault) {
            return try SchemaSteps(reading: json)
        } catch {
            throw Fault(path: path + JSONPointer.names(of: error.pointer), problem: "is no step", expected: error.expected)
        }
    }

    private static func numbers(_ json: JSON?) throws(Fault) -> [Int]? {
        guard let json, !json.isNull else { return nil }
        let numbers = json.array?.compactMap { $0.int.map { Int($0) } } ?? []
        guard !numbers.isEmpty, numbers.count == json.array?.count, Set(numbers).count == numbers.count else {
            throw Fault(path: ["accepts"], problem: "is no list of versions", expected: "each version once, such as [1, 2]")
        }
        return numbers
    }

    /// The keys as ``init(reading:versions:accepts:)`` reads them.
    package var json: JSONObject {
        var object: JSONObject = ["schema": .int(present)]
        var list: JSONObject = [:]
        for (number, version) in versions.sorted(by: { $0.key < $1.key }) {
            var item: JSONObject = [:]
            if let schema = version.schema { item["schema"] = schema.json }
            if !version.up.isEmpty { item["up"] = version.up.json }
            if let down = version.down { item["down"] = down.json }
            list[String(number)] = .object(item)
        }
        object["versions"] = .object(list)
        if let acceptsAsGiven { object["accepts"] = .array(acceptsAsGiven.map { .int($0) }) }
        return object
    }

    /// - Throws: When the text is not the ``json`` of versions.
    init(stored text: String) throws(Fault) {
        // The reader's own fault says nothing more to people: the text is written by this program.
        guard let object = try? JSONReader.read(text, limits: .stored).object, let present = object["schema"]?.int else {
            throw Fault(path: [], problem: "cannot be read")
        }
        try self.init(reading: Int(present), versions: object["versions"], accepts: object["accepts"])
    }
}
