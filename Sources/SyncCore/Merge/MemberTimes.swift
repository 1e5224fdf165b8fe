/// When the members of an object under `merge` were written (PROTOCOL D2). Each is compared by its own time: who changed `form.size`
/// at nine and `form.colour` at five wrote the size at nine, and not at five.
///
/// Most members were written together with their object, so only the others are named.
package struct MemberTimes: Hashable, Sendable {
    /// Of all members that are not named.
    package private(set) var rest: HybridTime
    /// By dotted name, the field's in front: `form.size`.
    package private(set) var named: [JSONString: HybridTime]

    package init(rest: HybridTime, named: [JSONString: HybridTime] = [:]) {
        self.rest = rest
        self.named = named
    }

    /// The most members that are named of one field. Of more, the oldest count as written with those that are not named.
    package static let namedMax = 256

    /// - Parameter place: The dotted name of a member. What was written of an object around it was written of the member.
    package func time(of place: String) -> HybridTime {
        if named.isEmpty { return rest }
        return [named[JSONString(place)], timeAround(place)].compactMap { $0 }.max() ?? rest
    }

    /// Of the objects around a member that are named, the latest.
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

    /// A time never goes back: what is there was compared with the later one.
    package mutating func write(_ place: String, at time: HybridTime) {
        named[JSONString(place)] = max(time, self.time(of: place))
    }

    /// The same in as few names as say it; `nil` where all members were written with the field.
    ///
    /// - Parameter time: Of the field.
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

/// Which of two sides wrote a member later.
package struct MemberOrder: Hashable, Sendable {
    var mine: MemberTimes
    var theirs: MemberTimes

    package init(mine: MemberTimes, theirs: MemberTimes) {
        self.mine = mine
        self.theirs = theirs
    }

    func isMineLater(_ place: String) -> Bool { mine.time(of: place) > theirs.time(of: place) }
}
