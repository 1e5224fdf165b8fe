package import SyncCore

/// Steps that give the data of a refused change another shape: `agentctl mutations retry --map FILE`.
///
/// The file is a JSON array. Each step is an object with one member, and the steps run in their order:
///
///     [{"rename": {"site": "site_id"}}, {"values": {"severity": {"minor": "low"}}},
///      {"default": {"inspector": "unknown"}}, {"drop": "legacy"}, {"wrap": "tags"}]
package struct FieldSteps: Hashable, Sendable {
    /// The differences of a converted change from the refused one.
    package struct Correction: Hashable, Sendable {
        /// Fields with another value than before.
        package var data: JSONObject
        /// Fields that are no longer part of the change.
        package var without: [String]

        package init(data: JSONObject = [:], without: [String] = []) {
            self.data = data
            self.without = without
        }

        package var isEmpty: Bool { data.isEmpty && without.isEmpty }
    }

    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    package let steps: [SchemaStep]

    /// A file of several hundred fields has some 50 KB.
    package static let bytesMax = 1 << 20

    /// - Throws: The place as a JSON pointer, and what was expected there.
    package init(reading bytes: [UInt8]) throws(Failure) {
        let json: JSON
        do {
            json = try JSONReader.read(bytes)
        } catch {
            throw Failure(description: "expected JSON: \(error)")
        }
        do throws(SchemaSteps.Fault) {
            steps = try SchemaSteps(reading: json, without: ["move", "unwrap"]).steps
        } catch {
            throw Failure(description: error.description)
        }
    }

    // MARK: - Application

    /// The correction of one change.
    ///
    /// - Parameter item: The mutation with its data, as `GET /v1/mutations/ID` shows it.
    /// - Returns: An empty correction if no step applies.
    /// - Throws: A step cannot be applied without loss: two fields would have one name, or the change treats a field in a way that a step
    ///   cannot convert.
    package func correction(of item: MutationItem) throws(Failure) -> Correction {
        if item.action == "delete" { return Correction() }
        // A change that only removes fields or has operations has no data. One without anything is damaged.
        let text = item.data ?? (item.unset ?? item.operations).map { _ in "{}" }
        // Damaged data is reported as not readable.
        guard let before = text.flatMap({ try? JSONReader.read($0) })?.object else {
            throw Failure(description: "its data is not readable")
        }
        var draft = Draft(data: before, others: Self.otherFields(of: item))
        for step in steps { try draft.apply(step, isCreate: item.action == "create") }
        var correction = Correction()
        for member in draft.data.members where before[member.name].map({ $0.json }) != member.value.json {
            correction.data[member.name.text] = member.value
        }
        correction.without = before.names.filter { draft.data[$0] == nil } + draft.dropped.filter { draft.data[$0] == nil }
        return correction
    }

    /// Fields that the change removes, or changes by an operation such as a sum.
    private static func otherFields(of item: MutationItem) -> Set<String> {
        // The agent has written both texts itself.
        let unset = item.unset.flatMap { try? JSONReader.read($0) }?.array?.compactMap(\.text) ?? []
        let operations = item.operations.flatMap { try? JSONReader.read($0) }?.array ?? []
        let names = unset + operations.compactMap { $0.object?["field"]?.text }
        // A name with dots is a field or a member of one; the configuration decides which, so both count.
        return Set(names + names.compactMap { $0.split(separator: ".").first.map(String.init) })
    }

    private struct Draft {
        var data: JSONObject
        var others: Set<String>
        var dropped: [String] = []

        mutating func apply(_ step: SchemaStep, isCreate: Bool) throws(Failure) {
            switch step {
            case .rename(let field, let new):
                try needValue(of: field, for: "rename")
                guard !sameBytes(field, new), let value = data[field] else { return }
                guard data[new] == nil, !others.contains(new) else {
                    throw Failure(description: "it changes both \(field) and \(new), so \(field) cannot be renamed")
                }
                data[field] = nil
                data[new] = value
            case .fill(let field, let value):
                if isCreate, data[field] == nil, !others.contains(field) { data[field] = value }
            case .drop(let field):
                data[field] = nil
                if others.remove(field) != nil { dropped.append(field) }
            case .values(let field, let map):
                try needValue(of: field, for: "values")
                guard let value = data[field], let name = SchemaStep.name(of: value), let new = map[name] else { return }
                data[field] = new
            case .wrap(let field):
                try needValue(of: field, for: "wrap")
                guard let value = data[field], !value.isNull, value.array == nil else { return }
                data[field] = .array([value])
            // A refused change has whole values of fields, and no way to say that only a member changes.
            case .unwrap, .moveInto, .moveOut: throw Failure(description: "the step cannot be applied to a refused change")
            }
        }

        private func needValue(of field: String, for step: String) throws(Failure) {
            guard !others.contains(field) else {
                throw Failure(description: "it removes \(field) or changes it by an operation, which the step \(step) cannot convert")
            }
        }
    }
}
