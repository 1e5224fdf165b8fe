/// The way of a program's changes to the hub and of the hub's record back. Every way must have the same end (``WayRules``).
package enum Way: String, Sendable, CaseIterable {
    /// Every request is answered, and all changes that wait go at once.
    case straight
    /// The answer to each push is lost once, and the push is sent again.
    case unanswered
    /// The same, and the device pulls before it sends again.
    case pulledUnanswered
    /// Each change goes in a request of its own.
    case single
    /// The device pulls first instead of pushing first, or the other way round.
    case otherSideDecides
    /// The first change is under way when the other device's changes are pulled.
    case underWay
    /// The first change is at the hub when the other device's changes are pulled, and its answer is lost.
    case underWayUnanswered
    /// All changes that a device makes in a row are one atomic list.
    case list
    /// The device's program ends and starts again between all steps.
    case restarts
    /// Other records change as well, each page has one record, and each page is applied twice.
    case pages
    /// The hub's answer to a push comes after the pull that brings its effects.
    case echoFirst
    /// Other devices read the record: one now and then, and one that comes last.
    case readers

    /// The hub takes the same changes in the same requests.
    var hasSameRequests: Bool {
        switch self {
        case .straight, .unanswered, .pulledUnanswered, .restarts, .pages, .echoFirst, .readers: true
        case .single, .otherSideDecides, .underWay, .underWayUnanswered, .list: false
        }
    }
}

/// The results of a program that must be the same on a straight and on another way.
package struct WayRules {
    private let program: Program
    private let way: Way

    package init(_ program: Program, _ way: Way) { (self.program, self.way) = (program, way) }

    /// - Returns: `nil` for a program whose ends may differ on this way.
    package func faults(_ straight: ProgramWorld.Outcome, _ other: ProgramWorld.Outcome) -> [String]? {
        var faults = straight.faults + other.faults
        let isOpen = (straight.disputes + other.disputes).contains { !$0.isEmpty }
        // While one member is in dispute, the whole list waits (PROTOCOL D6).
        if isOpen, way == .list { return nil }
        func compare<Value: Equatable>(_ word: String, _ value: (ProgramWorld.Outcome) -> Value) {
            if value(straight) != value(other) { faults.append(word) }
        }
        compare("the document", \.document)
        compare("what people are asked", asked)
        // The changes that wait behind a dispute depend on those that were sent before it.
        if !isOpen { compare("what apps see", \.views) }
        if way.hasSameRequests {
            compare("the refusals", \.refusals)
            compare("what is lost", \.lost)
            compare("the document after the decision", \.decided)
        } else if !isOpen {
            // A change behind a refused one is refused by itself, with it, or as a member of its list.
            compare("whether changes are refused") { $0.refusals.map(\.isEmpty) }
        }
        return faults
    }

    /// The disputes by device. A device that pulls first asks about a deletion together with the change before it. A device that pushes
    /// first asks about the change, and about the deletion after the decision (PROTOCOL C7).
    private func asked(_ outcome: ProgramWorld.Outcome) -> [Set<String>] {
        if way.hasSameRequests { return outcome.disputes }
        return zip(outcome.disputes, program.steps).map { fields, steps in
            let waits = steps.last?.act == .delete && fields.contains { $0 != RuleModel.wholeRecord }
            return waits ? fields.subtracting([RuleModel.wholeRecord]) : fields
        }
    }
}
