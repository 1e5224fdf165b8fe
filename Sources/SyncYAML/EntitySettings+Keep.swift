import SyncCore

// The key `keep` of an entity: a rule for the documents that devices hold, or the time for which the hub keeps events.
extension EntitySettings {
    /// A mapping for documents, or one duration for events.
    static var keepSetting: Format<KeepSetting> {
        let expected = "\(keepRule.expected), or for events \(eventsExpected)"
        let time = Format<KeepSetting>.text(
            expected: expected,
            parse: { DurationText.parse($0).flatMap { KeepSetting.eventsRange.contains($0) ? .events($0) : nil } },
            write: { setting in
                switch setting {
                case .documents(let rule): keepRule.write(rule)
                case .events(let time): .string(DurationText.exact(time))
                }
            })
        return Format(
            expected: expected, keys: keepRule.keys,
            read: { node, reading in
                if node.members != nil { return keepRule.read(node, &reading).map { .documents($0) } }
                return time.read(node, &reading)
            }, write: time.write)
    }

    private static var eventsExpected: String {
        "a duration from \(DurationText.exact(KeepSetting.eventsRange.lowerBound)) to "
            + "\(DurationText.exact(KeepSetting.eventsRange.upperBound)), such as 400d"
    }

    /// Refuses a rule of the other kind of entity, one that has no effect, and one that would drop a document while a change of it can
    /// still be undone or offered again.
    static func checkKeep(_ setting: KeepSetting, _ rules: EntityRules, _ node: YAMLNode, _ reading: inout Reading) {
        func refuse(_ path: [String], _ expected: String) {
            reading.inside(key: "keep") { reading in
                guard let key = path.last, path.count > 1 else { return reading.refuse(node.deepest(path), expected: expected) }
                reading.inside(key: key) { $0.refuse(node.deepest(path), expected: expected) }
            }
        }
        switch setting {
        case .events:
            guard rules.kind != .event else { return }
            refuse(["keep"], "a mapping with the keys days, when: the hub removes only events by their age")
        case .documents(let keep):
            guard rules.kind != .event else {
                return refuse(["keep"], "\(eventsExpected): no device reads events, and the hub removes them by their age")
            }
            let retention = rules.retention.map { ($0.milliseconds + 86_399_999) / 86_400_000 } ?? 0
            if keep.days < retention { refuse(["keep", "days"], "at least the \(retention) days of retention") }
        }
    }

    /// The documents that a device may drop.
    private static var keepRule: Format<KeepRule> {
        .mapping(
            KeepRule(days: KeepRule.daysRange.upperBound),
            [
                .key("days", \.days, .integer(KeepRule.daysRange), isRequired: true),
                .key("when", \.when, .dictionary(of: .list(keptValue, upTo: 64), names: fieldName, text: { $0 }, upTo: 16)),
            ], check: checkWhen)
    }

    /// An empty list would match no record, and its author most probably means every record.
    private static func checkWhen(_ rule: KeepRule, _ node: YAMLNode, _ reading: inout Reading) {
        for field in rule.when.keys.sorted() where rule.when[field]?.isEmpty == true {
            reading.inside(key: "when") { reading in
                reading.inside(key: field) { $0.refuse(node.deepest(["when", field]), expected: "at least one value") }
            }
        }
    }

    /// A value that a field must have so that the document may be dropped.
    private static var keptValue: Format<String> {
        .text(expected: "a text, a number, true or false", parse: { $0.isEmpty ? nil : $0 }, write: { .string($0) })
    }
}
