/// The judgement of a record's form on a change of the record (PROTOCOL A12). The agent asks at the enqueue, and the hub for the merged
/// record.
///
/// A change answers only for what was not there before it, or is in a field that it changes, as with a schema (``DocumentSchema``). So a
/// record that was completed before its form was on the device does not stop later notes.
package struct FormVerdict: Hashable, Sendable {
    /// Why the change was not judged by a form, although its record names one.
    package enum Unjudged: String, Hashable, Sendable, CaseIterable {
        /// The form is not here; the hub judges when the change arrives there.
        case absent
        /// The form cannot be read.
        case unusable
    }

    /// Answers of a wrong kind, each place as a JSON pointer below `/data`.
    package var faults: [Problem.Pointer] = []
    /// The holes of a complete record; empty for a record that does not say that it is complete.
    package var holes: [Problem.Pointer] = []
    package var unjudged: Unjudged?

    package init() {}

    /// Faults and holes, each place once.
    package var all: [Problem.Pointer] {
        let places = Set(faults.map { Array($0.pointer.utf8) })
        return faults + holes.filter { !places.contains(Array($0.pointer.utf8)) }
    }

    /// - Parameters:
    ///   - before: The record without the change; `nil` when there was none.
    ///   - find: Finds the form of a name.
    package init<Failure>(
        _ rules: EntityRules, after: JSONObject, before: JSONObject?,
        find: (FormSettings.Name, FormSettings) throws(Failure) -> FormCache.Found
    ) throws(Failure) {
        guard let settings = rules.form, rules.validation != .off else { return }
        let isComplete = rules.complete?.matches(after) ?? false
        let wasComplete = before.map { rules.complete?.matches($0) ?? false } ?? false
        let earlier = before.flatMap { settings.name(in: $0) }
        guard let name = settings.name(in: after) else {
            if isComplete, !wasComplete || earlier != nil {
                let place = Self.place + "/" + JSONPointer.escaped(settings.ref)
                holes = [Problem.Pointer(place, "is required, because a complete record names its form")]
            }
            return
        }
        switch try find(name, settings) {
        case .absent: unjudged = .absent
        case .unusable: unjudged = .unusable
        case .form(let form):
            let judged = form.judge(after)
            faults = judged.faults
            holes = isComplete ? judged.holes : []
            if let before, name == earlier, !faults.isEmpty || !holes.isEmpty, !judged.isTooCostly {
                let known = form.judge(before)
                faults = Self.new(faults, known.faults, after, before)
                if wasComplete { holes = Self.new(holes, known.holes, after, before) }
            }
            for index in faults.indices { faults[index].pointer = Self.place + faults[index].pointer }
            for index in holes.indices { holes[index].pointer = Self.place + holes[index].pointer }
        }
    }

    private static let place = "/data"

    /// The faults that were not there before, or are in a field that the change touches.
    private static func new(
        _ faults: [Problem.Pointer], _ known: [Problem.Pointer], _ after: JSONObject, _ before: JSONObject
    ) -> [Problem.Pointer] {
        // With more faults than a judgement lists, it is unknown which ones are new.
        if known.count >= FormJudgement.faultsMax { return [] }
        let places = Set(known.map { Array($0.pointer.utf8) })
        return faults.filter { fault in
            guard places.contains(Array(fault.pointer.utf8)), let field = JSONPointer.names(of: fault.pointer).first else { return true }
            return after[field] != before[field]
        }
    }
}
