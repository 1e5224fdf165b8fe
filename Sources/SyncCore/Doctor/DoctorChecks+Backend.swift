// Checks for an existing backend: guarantees that are weaker than with a hub.
extension Doctor {
    static let backendChecks: [DoctorCheck] = [
        DoctorCheck("backend_writes", why: "an existing backend promises less than a hub when an answer is lost or two sides write at once")
        { facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            guard let weaknesses = configuration.weaknesses else { return .ok("the server is a hub") }
            let grave = weaknesses.filter(\.isGrave)
            guard !grave.isEmpty else { return .ok("every request can be repeated or asked about, and changes are conditional") }
            return .warn(Self.text(grave), fix: Self.remedies(grave))
        },
        DoctorCheck("backend_lists", why: "an existing backend has no feed of changes, so what others do is found by lists") { facts in
            guard let configuration = facts.configuration else { return .unknown("not read") }
            guard let weaknesses = configuration.weaknesses else { return .ok("the server is a hub") }
            let lists = weaknesses.filter { !$0.isGrave }
            guard !lists.isEmpty else { return .ok("nothing is listed") }
            return .note(Self.text(lists), fix: Self.remedies(lists))
        },
    ]

    private static func text(_ weaknesses: [RestWeakness]) -> String {
        weaknesses.map(\.description).joined(separator: "; ")
    }

    private static func remedies(_ weaknesses: [RestWeakness]) -> String {
        var remedies: [String] = []
        for remedy in weaknesses.compactMap(\.remedy) where !remedies.contains(remedy) { remedies.append(remedy) }
        return remedies.isEmpty ? "nothing to do: a server that speaks the hub's protocol does better" : remedies.joined(separator: "; ")
    }
}
