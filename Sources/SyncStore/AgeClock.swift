import SyncCore

/// Milliseconds that this database is known to have existed: the clock of waiting, expiry and retention.
///
/// Wall time may be wrong after a boot without a battery-backed clock, and jumps when the network corrects it. What is
/// purged by it may be purged 50 years early. Boot time never jumps, and ends with the boot. So: within a boot, boot time
/// counts. What passed between two boots counts once the time is known in the later one, from the hub's answer or from a
/// kernel that says that its clock is right, and then however long it was. Until then nothing of it counts: being too slow only
/// keeps things longer, and a clock that is wrong by weeks must not expire work that is minutes old.
///
/// Before the time was known for the first time, the difference in wall time counts while it is plausible.
struct AgeClock: Hashable {
    /// Where nobody has ever known the time, a gateway that was off for longer than this is taken for one with a wrong clock.
    static let gapMax: Duration = .seconds(31 * 86_400)
    /// The longest gap that even a clock which is trusted is believed.
    static let knownGapMax: Duration = .seconds(3 * 365 * 86_400)

    /// A time that could be trusted, where this clock stood then, and in which boot that was.
    private struct Known: Hashable {
        var wall: Int64
        var age: Int64
        var bootID: String
    }

    private var known: Known?

    /// Where the clock stood when it was last written down.
    private(set) var age: Int64
    private(set) var bootID: String
    private(set) var instant: Int64
    private(set) var wall: Int64

    init(bootID: String, at now: Moment) {
        self.age = 0
        self.bootID = bootID
        self.instant = now.instant.nanoseconds / 1_000_000
        self.wall = now.wall.milliseconds
    }

    func age(at now: Moment) -> Int64 {
        age.saturatingAdd(max(0, (now.instant.nanoseconds / 1_000_000).saturatingSubtract(instant)))
    }

    /// Goes on from here, in this boot.
    mutating func anchor(bootID: String, at now: Moment) {
        if bootID == self.bootID {
            age = age(at: now)
        } else {
            let gap = now.wall.milliseconds.saturatingSubtract(wall)
            if known == nil, gap > 0, gap <= Self.gapMax.milliseconds { age = age.saturatingAdd(gap) }
            self.bootID = bootID
        }
        instant = now.instant.nanoseconds / 1_000_000
        wall = now.wall.milliseconds
    }

    /// The time is known, in the present boot. What had passed before it counts now, once: a step of the clock later on does not.
    mutating func learn(_ time: Timestamp, at now: Moment) {
        age = age(at: now)
        instant = now.instant.nanoseconds / 1_000_000
        wall = now.wall.milliseconds
        if let known, known.bootID != bootID {
            let gap = known.age.saturatingAdd(time.milliseconds.saturatingSubtract(known.wall)).saturatingSubtract(age)
            if gap > 0, gap <= Self.knownGapMax.milliseconds { age = age.saturatingAdd(gap) }
        }
        known = Known(wall: time.milliseconds, age: age, bootID: bootID)
    }

    /// When this clock shows `age`, by the clock of the present boot.
    func instant(of age: Int64) -> Instant {
        let milliseconds = age.saturatingSubtract(self.age).saturatingAdd(instant)
        return Instant(nanoseconds: min(max(milliseconds, 0), .max / 1_000_000) * 1_000_000)
    }

    /// The present wall clock's word for a time on this clock.
    func wall(of age: Int64, at now: Moment) -> Timestamp {
        Timestamp(milliseconds: now.wall.milliseconds.saturatingAdd(age.saturatingSubtract(self.age(at: now))))
    }
}

extension AgeClock {
    var text: String {
        var object: JSONObject = ["age": .int(age), "boot": .string(bootID), "instant_ms": .int(instant), "wall_ms": .int(wall)]
        if let known {
            object["known"] = ["age": .int(known.age), "boot": .string(known.bootID), "wall_ms": .int(known.wall)]
        }
        return object.json
    }

    /// - Returns: `nil` when the text is not what ``text`` makes.
    init?(_ text: String) {
        guard let object = try? JSONReader.read(text).object,  // what cannot be read is what `nil` tells
            let age = object["age"]?.int, let bootID = object["boot"]?.text, let instant = object["instant_ms"]?.int,
            let wall = object["wall_ms"]?.int
        else { return nil }
        self.age = age
        self.bootID = bootID
        self.instant = instant
        self.wall = wall
        // Earlier versions wrote none; then the next answer of the hub begins it.
        guard let known = object["known"]?.object, let knownAge = known["age"]?.int, let boot = known["boot"]?.text,
            let knownWall = known["wall_ms"]?.int
        else { return }
        self.known = Known(wall: knownWall, age: knownAge, bootID: boot)
    }
}
