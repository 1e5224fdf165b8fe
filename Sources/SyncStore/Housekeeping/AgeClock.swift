import SyncCore

/// Milliseconds that this database is known to have existed: the clock of waiting, expiry and retention.
///
/// Wall time may be wrong after a boot without a battery-backed clock, and jumps when the network corrects it. Data that is purged by wall
/// time may be purged 50 years early. Boot time never jumps, but ends with the boot. So within a boot, boot time counts. The time between
/// two boots counts in full as soon as the time is known in the later boot, from the hub's answer or from a kernel that says that its clock
/// is right. Until then none of it counts: a slow clock only keeps data longer, and a clock that is wrong by weeks must not expire work
/// that is minutes old.
///
/// Before the time was known for the first time, the difference in wall time counts while it is plausible.
struct AgeClock: Hashable {
    /// Longest plausible difference in wall time while the time was never known. A gateway that seems to have been off for longer is
    /// assumed to have a wrong clock.
    static let gapMax: Duration = .seconds(31 * 86_400)
    /// Longest gap that is accepted even from a trusted clock.
    static let knownGapMax: Duration = .seconds(3 * 365 * 86_400)

    /// A trusted time, the value of this clock at that time, and its boot.
    private struct Known: Hashable {
        var wall: Int64
        var age: Int64
        var bootID: String
    }

    private var known: Known?

    /// Value of this clock when it was last stored.
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

    /// Continues the clock from here, in this boot.
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

    /// Records a known time of the present boot. The time that passed before it is counted now, once; a later step of the clock is not
    /// counted.
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

    /// The time by the clock of the present boot at which this clock shows `age`.
    func instant(of age: Int64) -> Instant {
        let milliseconds = age.saturatingSubtract(self.age).saturatingAdd(instant)
        return Instant(nanoseconds: min(max(milliseconds, 0), .max / 1_000_000) * 1_000_000)
    }

    /// A time of this clock, by the present wall clock.
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

    /// - Returns: `nil` when the text is not in the format of ``text``.
    init?(_ text: String) {
        guard let object = try? JSONReader.read(text).object,  // unreadable text returns `nil`
            let age = object["age"]?.int, let bootID = object["boot"]?.text, let instant = object["instant_ms"]?.int,
            let wall = object["wall_ms"]?.int
        else { return nil }
        self.age = age
        self.bootID = bootID
        self.instant = instant
        self.wall = wall
        // Earlier versions did not store it; the next answer of the hub sets it then.
        guard let known = object["known"]?.object, let knownAge = known["age"]?.int, let boot = known["boot"]?.text,
            let knownWall = known["wall_ms"]?.int
        else { return }
        self.known = Known(wall: knownWall, age: knownAge, bootID: boot)
    }
}
