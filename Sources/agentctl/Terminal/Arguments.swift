import ArgumentParser
import LocalAPI
import SyncCore

// Values of the product as arguments. A value that cannot be read is a usage error, exit 64.

extension ArgumentHelp {
    static let entity: ArgumentHelp = "The entity, by its name: 1 to 64 characters out of A-Z a-z 0-9 . _ : -."
}

extension Identifier: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}

extension Priority: ExpressibleByArgument {
    init?(argument: String) { self.init(name: argument) }
    static var allValueStrings: [String] { allCases.map(\.name) }
}

extension NewMutation.Action: ExpressibleByArgument {}
extension ImportPlan.Format: ExpressibleByArgument {}
extension RecordView: ExpressibleByArgument {}
extension SyncRequest.Scope: ExpressibleByArgument {}
extension EventType: ExpressibleByArgument {}
extension LedgerQuery.Period: ExpressibleByArgument {}

extension LinkName: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}

extension CalendarDay: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}

extension ConflictState: ExpressibleByArgument {}

extension ConflictID: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}

extension MutationState: ExpressibleByArgument {
    init?(argument: String) { self.init(name: argument) }
    static var allValueStrings: [String] { allCases.map(\.name) }
}

/// A condition, `field:op:value`.
struct Condition: ExpressibleByArgument, Sendable {
    /// The text as it was given.
    let text: String
    var filter: RecordFilter

    init?(argument: String) {
        guard let filter = RecordFilter(text: argument) else { return nil }
        self.filter = filter
        text = argument
    }
}

/// A condition on rejected changes: on their data, `field:op:value`, or on the code of the rejection, `reason=code`.
enum RetryCondition: ExpressibleByArgument, Sendable {
    case data(Condition)
    case reason(String)

    init?(argument: String) {
        if argument.hasPrefix("reason=") {
            let name = String(argument.dropFirst("reason=".count))
            guard !name.isEmpty else { return nil }
            // A change that a schema or a form refuses has this code.
            self = .reason(name == "schema" ? "validation" : name)
        } else {
            guard let condition = Condition(argument: argument) else { return nil }
            self = .data(condition)
        }
    }

    var code: String? { if case .reason(let code) = self { code } else { nil } }
    var filter: RecordFilter? { if case .data(let condition) = self { condition.filter } else { nil } }
}

/// A sort key, `field`, or `-field` for descending order.
struct SortArgument: ExpressibleByArgument, Sendable {
    /// The text as it was given.
    let text: String
    var sort: RecordListQuery.Sort

    init?(argument: String) {
        guard let sort = RecordListQuery.Sort(text: argument) else { return nil }
        self.sort = sort
        text = argument
    }
}

struct FieldArgument: ExpressibleByArgument, Sendable {
    /// The text as it was given.
    let text: String
    var path: FieldPath

    init?(argument: String) {
        guard let path = FieldPath(parameter: argument) else { return nil }
        self.path = path
        text = argument
    }
}

/// A duration, such as `30s`, `5m`, `2h`, `7d`.
struct DurationArgument: ExpressibleByArgument, Sendable {
    var duration: Duration

    init?(argument: String) {
        guard let duration = DurationText.parse(argument) else { return nil }
        self.duration = duration
    }
}

/// A time, such as `2026-11-21T06:00:00Z`.
struct TimeArgument: ExpressibleByArgument, Sendable {
    var time: Timestamp

    init?(argument: String) {
        guard let time = RFC3339.timestamp(argument) else { return nil }
        self.time = time
    }
}

/// A size, such as `5MB`, `200KB`, `10MiB`.
struct SizeArgument: ExpressibleByArgument, Sendable {
    var bytes: Int64

    init?(argument: String) {
        guard let bytes = SizeText.parse(argument), bytes <= PlanBody.budgetBytesMax else { return nil }
        self.bytes = bytes
    }
}

/// A percentage, `12%` or `12`: 0 to 100.
struct PercentArgument: ExpressibleByArgument, Sendable {
    var percent: Int64

    init?(argument: String) {
        let digits = argument.hasSuffix("%") ? argument.dropLast() : argument[...]
        guard digits.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let percent = Int64(digits), percent <= 100 else {
            return nil
        }
        self.percent = percent
    }
}
