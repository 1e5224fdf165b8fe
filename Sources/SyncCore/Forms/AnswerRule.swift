/// The types of questions as a form names them.
enum FieldType: String, Sendable, CaseIterable {
    case text, number, integer, checkbox, choice
    case choices = "multi_choice"
    case date, time, rating, photo, file, signature, location, group

    static let names = allCases.map(\.rawValue)

    /// The keys that only some types have.
    var keys: [FieldKey] {
        switch self {
        case .text: [.pattern, .maxLength]
        case .number, .integer, .rating, .date, .time, .photo, .file: [.min, .max]
        case .choice: [.choices]
        case .choices: [.choices, .min, .max]
        case .group: [.fields, .min, .max]
        case .checkbox, .signature, .location: []
        }
    }
}

/// The keys of a question.
enum FieldKey: String, CaseIterable {
    case id, type, required
    case visibleWhen = "visible_when"
    /// Notes for people and apps. They decide nothing.
    case label, hint, unit, meta
    case min, max, pattern, choices, fields
    case maxLength = "max_length"

    static let ofAll: [FieldKey] = [.id, .type, .required, .visibleWhen, .label, .hint, .unit, .meta]
    static let names = allCases.map(\.rawValue)
}

/// The rule of an answer.
enum AnswerRule: Sendable {
    /// - Parameter most: Unicode code points.
    case text(most: Int?, pattern: LinearPattern?)
    case number(FormRange, isWhole: Bool)
    case checkbox
    case choice(AllowedValues)
    case choices(AllowedValues, least: Int, most: Int)
    case date(FormRange)
    case time(FormRange)
    case files(least: Int, most: Int)
    case signature, location
    case group(least: Int, most: Int)

    /// The number of choices, files or entries that a complete record has at least.
    var least: Int {
        switch self {
        case .choices(_, let least, _), .files(let least, _), .group(let least, _): least
        case .text, .number, .checkbox, .choice, .date, .time, .signature, .location: 0
        }
    }

    /// The answer that the question asks for, for texts about an answer of another kind.
    var expectation: String {
        switch self {
        case .text: "a text"
        case .number(_, isWhole: false): "a number"
        case .number(_, isWhole: true): "a whole number"
        case .checkbox: "true or false"
        case .choice: "one of the choices"
        case .choices: "a list of choices"
        case .date: "a date such as 2026-04-30"
        case .time: "a time of day such as 14:05 or 14:05:30"
        case .files: "a file (an object with $blob), or a list of files"
        case .signature: "a file (an object with $blob)"
        case .location: "an object with lat and lon"
        case .group: "a list of entries"
        }
    }
}

/// Lowest and highest value. Dates and times are compared as whole numbers.
struct FormRange: Sendable {
    struct End: Sendable {
        var number: ComparedNumber
        /// The text of the form.
        var text: String
        /// `min` and `max`; without it `above` and `below`.
        var isIncluded = true
    }

    var lower: End?
    var upper: End?

    var isOpen: Bool { lower == nil && upper == nil }

    func admits(_ number: JSONNumber) -> Bool {
        let number = ComparedNumber(number)
        return misses(number, lower, isLower: true) == false && misses(number, upper, isLower: false) == false
    }

    /// The rule that a number breaks.
    func fault(of number: JSONNumber, found: String) -> String? {
        let number = ComparedNumber(number)
        if let lower, misses(number, lower, isLower: true) { return "must be at least \(lower.text), found \(found)" }
        if let upper, misses(number, upper, isLower: false) { return "must be at most \(upper.text), found \(found)" }
        return nil
    }

    private func misses(_ number: ComparedNumber, _ end: End?, isLower: Bool) -> Bool {
        guard let end else { return false }
        if isLower { return end.isIncluded ? number < end.number : !(end.number < number) }
        return end.isIncluded ? end.number < number : !(number < end.number)
    }

    /// Both ranges at once.
    func narrowed(by other: FormRange) -> FormRange {
        func tighter(_ left: End?, _ right: End?, isLower: Bool) -> End? {
            guard let left, let right else { return left ?? right }
            if left.number < right.number { return isLower ? right : left }
            if right.number < left.number { return isLower ? left : right }
            return left.isIncluded ? right : left
        }
        return FormRange(lower: tighter(lower, other.lower, isLower: true), upper: tighter(upper, other.upper, isLower: false))
    }

    /// Returns whether no number fits.
    func isEmpty(isWhole: Bool) -> Bool {
        guard let lower, let upper else { return false }
        if isWhole, let low = lower.number.number.int, let high = upper.number.number.int {
            let (first, overflowsFirst) = low.addingReportingOverflow(lower.isIncluded ? 0 : 1)
            let (last, overflowsLast) = high.subtractingReportingOverflow(upper.isIncluded ? 0 : 1)
            return overflowsFirst || overflowsLast || last < first
        }
        if upper.number < lower.number { return true }
        return !(lower.number < upper.number) && !(lower.isIncluded && upper.isIncluded)
    }
}

/// Dates and times as numbers in their order.
enum FormMoment {
    /// `2026-04-30` as 20260430.
    static func date(_ text: String) -> JSONNumber? {
        guard TextFormat.date.accepts(text) else { return nil }
        return JSONNumber(text.utf8.reduce(0 as Int64) { $1 == UInt8(ascii: "-") ? $0 : $0 * 10 + Int64($1 - UInt8(ascii: "0")) })
    }

    /// `14:05` and `14:05:00` as seconds of the day. A question asks for the time at its place, so there is no offset.
    static func time(_ text: String) -> JSONNumber? {
        let parts = text.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard parts.count == 2 || parts.count == 3 else { return nil }
        var seconds: Int64 = 0
        for (index, part) in parts.enumerated() {
            guard part.count == 2, part.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
            let value = part.reduce(0 as Int64) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
            guard value < (index == 0 ? 24 : 60) else { return nil }
            seconds = seconds * 60 + value
        }
        return JSONNumber(parts.count == 2 ? seconds * 60 : seconds)
    }
}

extension AnswerRule {
    /// The answer as a number in its order; `nil` for types without one and for values of another kind.
    func number(of value: JSON) -> JSONNumber? {
        switch self {
        case .number:
            guard case .number(let number) = value else { return nil }
            return number
        case .date: return value.text.flatMap { FormMoment.date($0) }
        case .time: return value.text.flatMap { FormMoment.time($0) }
        case .text, .checkbox, .choice, .choices, .files, .signature, .location, .group: return nil
        }
    }

    /// Returns whether a value is no answer: null, or a text or list without content.
    static func isBlank(_ value: JSON) -> Bool {
        switch value {
        case .null: true
        case .string(let text): text.source.isEmpty
        case .array(let list): list.isEmpty
        case .bool, .number, .object: false
        }
    }

    /// The first rule that an answer breaks; `nil`: it fits. The entries of a group are judged elsewhere.
    ///
    /// - Parameter steps: The number of steps that are left. Negative afterwards when they were not enough.
    /// - Returns: The place below the answer, and the text.
    func fault(of value: JSON, steps: inout Int) -> (place: String, detail: String)? {
        switch self {
        case .text(let most, let pattern):
            guard let text = value.text else { return misfit(value) }
            steps -= text.utf8.count / 64
            if let most, case let count = text.unicodeScalars.count, count > most {
                return ("", "must have at most \(most) character\(most == 1 ? "" : "s"), found \(count)")
            }
            if let pattern, steps >= 0, !pattern.matches(text, steps: &steps), steps >= 0 {
                return ("", "must match \(pattern.source), found \(value.shown)")
            }
            return nil
        case .number(let range, let isWhole):
            guard case .number(let number) = value, !isWhole || number.isWhole else { return misfit(value) }
            return range.fault(of: number, found: value.found).map { ("", $0) }
        case .checkbox: return value.bool == nil ? misfit(value) : nil
        case .choice(let choices): return choices.contains(value) ? nil : ("", "must be \(choices.shownForPeople), found \(value.shown)")
        case .choices(let choices, _, let most):
            return Self.fault(of: value.array, among: choices, most: most, &steps) ?? (value.array == nil ? misfit(value) : nil)
        case .date(let range), .time(let range):
            guard let number = number(of: value) else { return misfit(value) }
            return range.fault(of: number, found: value.shown).map { ("", $0) }
        case .files(_, let most):
            let files = value.array ?? [value]
            steps -= files.count
            if files.count > most { return ("", "must have at most \(most) file\(most == 1 ? "" : "s"), found \(files.count)") }
            guard let index = files.firstIndex(where: { !Self.isFile($0) }) else { return nil }
            return value.array == nil ? misfit(value) : ("/\(index)", "must be a file (an object with $blob), found \(files[index].shown)")
        case .signature: return Self.isFile(value) ? nil : misfit(value)
        case .location: return Self.locationFault(of: value).map { ($0, $1) } ?? (value.object == nil ? misfit(value) : nil)
        case .group(_, let most):
            guard let entries = value.array else { return misfit(value) }
            return entries.count > most ? ("", "must have at most \(most) entries, found \(entries.count)") : nil
        }
    }

    /// The part that a complete record lacks although there is an answer.
    func lack(of value: JSON) -> String? {
        let count = value.array?.count ?? 1
        guard count < least else { return nil }
        switch self {
        case .choices: return "needs at least \(least) choices, found \(count)"
        case .files: return "needs at least \(least) files, found \(count)"
        case .group: return "needs at least \(least) entries, found \(count)"
        case .text, .number, .checkbox, .choice, .date, .time, .signature, .location: return nil
        }
    }

    private func misfit(_ value: JSON) -> (place: String, detail: String) { ("", "must be \(expectation), found \(value.shown)") }

    private static func fault(
        of list: [JSON]?, among choices: AllowedValues, most: Int, _ steps: inout Int
    ) -> (place: String, detail: String)? {
        guard let list else { return nil }
        steps -= list.count
        if list.count > most { return ("", "must have at most \(most) choice\(most == 1 ? "" : "s"), found \(list.count)") }
        // Each element is one of the choices, so the set cannot be larger than those.
        var seen = Set<JSON>()
        for (index, value) in list.enumerated() {
            if !choices.contains(value) { return ("/\(index)", "must be \(choices.shownForPeople), found \(value.shown)") }
            if !seen.insert(value).inserted { return ("/\(index)", "must have each choice once; \(value.shown) is there before") }
        }
        return nil
    }

    /// A placeholder (``Placeholder``), whether its bytes have arrived or not. Its media type is what the app said, so it decides nothing.
    private static func isFile(_ value: JSON) -> Bool {
        value.object?[Placeholder.mark]?.text.flatMap { BlobDigest($0) } != nil
    }

    private static func locationFault(of value: JSON) -> (String, String)? {
        guard let object = value.object else { return nil }
        for (name, limit) in [("lat", 90), ("lon", 180)] as [(String, Int64)] {
            guard case .number(let number)? = object[name] else {
                return ("/" + name, "must be a number of degrees" + (object[name].map { ", found \($0.shown)" } ?? ", and is missing"))
            }
            if number < JSONNumber(-limit) || JSONNumber(limit) < number {
                return ("/" + name, "must be from -\(limit) to \(limit), found \(number.source.prefix(40))")
            }
        }
        return nil
    }
}

extension AllowedValues {
    /// The values as one short text.
    var shownForPeople: String {
        let some = list.prefix(10).map(\.shown).joined(separator: ", ")
        let beginning = list.count == 1 ? "" : "one of "
        return beginning + (list.count > 10 ? some + " and \(list.count - 10) more" : some)
    }
}
