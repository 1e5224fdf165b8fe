/// Times at which the members of an object under `merge` were written (PROTOCOL D2). Each member is compared by its own time: after a
/// change of `form.size` at nine and of `form.colour` at five, the size has the time nine, not five.
///
/// Most members were written together with their object, so only the others are named.
package struct MemberTimes: Hashable, Sendable {
    /// Time of all members that are not named.
    package private(set) var rest: HybridTime
    /// Times by dotted name, which begins with the field: `form.size`.
    package private(set) var named: [JSONString: HybridTime]

    package init(rest: HybridTime, named: [JSONString: HybridTime] = [:]) {
        self.rest = rest
        self.named = named
    }

    /// Largest number of named members of one field. If there are more, the oldest count as written with the unnamed ones.
    package static let namedMax = 256

    /// - Parameter place: The dotted name of a member. A write of an object around it counts as a write of the member.
    package func time(of place: String) -> HybridTime {
        if named.isEmpty { return rest }
        return [named[JSONString(place)], timeAround(place)].compactMap { $0 }.max() ?? rest
    }

    /// The latest time of the named objects around a member.
    private func timeAround(_ place: String) -> HybridTime? {
        var latest: HybridTime?
        var name = place.utf8[...]
        for _ in 0..<ThreeWay.depthMax {
            guard let dot = name.lastIndex(of: UInt8(ascii: ".")) else { break }
            name = name[..<dot]
            if let around = named[JSONString(String(Substring(name)))] { latest = max(latest ?? around, around) }
        }
        return latest
    }

    /// Dates a member. A time never goes back, because the present value was compared with the later one.
    package mutating func write(_ place: String, at time: HybridTime) {
        named[JSONString(place)] = max(time, self.time(of: place))
    }

    /// The same times with the fewest names; `nil` where all members were written with the field.
    ///
    /// - Parameter time: The time of the field.
    package func shortened(of time: HybridTime) -> MemberTimes? {
        JSONWork.count(named.count)
        var result = MemberTimes(rest: rest, named: named.filter { $0.value != rest || timeAround($0.key.text) != nil })
        if result.named.count > Self.namedMax {
            let oldest = result.named.sorted { ($0.value, $0.key.source) < ($1.value, $1.key.source) }
            for (place, its) in oldest.prefix(result.named.count - Self.namedMax) {
                result.named[place] = nil
                result.rest = max(result.rest, its)
            }
        }
        return result.named.isEmpty && result.rest == time ? nil : result
    }
}

/// Decides which of two sides wrote a member later.
package struct MemberOrder: Hashable, Sendable {
    var mine: MemberTimes
    var theirs: MemberTimes

    func isMineLater(_ place: String) -> Bool { mine.time(of: place) > theirs.time(of: place) }
}
