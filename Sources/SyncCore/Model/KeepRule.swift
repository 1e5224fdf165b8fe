/// Selects the records whose documents a device may drop, such as "done for 90 days" (PROTOCOL C9). The device keeps a stub of such a
/// record: its id and its version.
///
/// The product owner writes it as `{ days: 90, when: { status: [done, cancelled] } }`.
package struct KeepRule: Hashable, Sendable {
    /// Days for which a document stays after its last change.
    package var days: Int
    /// The accepted values by field. Empty: the age alone decides.
    package var when: [String: [String]]

    /// Not less than 7 days: for this time a change that the hub has accepted can still be undone, or offered again to a hub that was
    /// restored, and both need the document.
    package static let daysRange = 7...3_650

    package init(days: Int, when: [String: [String]] = [:]) {
        self.days = days
        self.when = when
    }

    /// Returns whether the device may drop the document.
    ///
    /// Both times are milliseconds of one clock that never runs ahead of the time that has passed, such as the age of the database. A slow
    /// clock only keeps documents longer.
    ///
    /// - Parameter changedAt: Time of the last change of the record.
    package func forgets(_ document: JSONObject, changedAt: Int64, now: Int64) -> Bool {
        isOver(changedAt: changedAt, now: now) && matches(document)
    }

    /// Returns whether the document is old enough, whatever it holds.
    package func isOver(changedAt: Int64, now: Int64) -> Bool {
        now.saturatingSubtract(changedAt) >= Duration.seconds(Int64(days) * 86_400).milliseconds
    }

    /// Returns whether every field has one of its values: as text, as the digits of a number, as `true` or `false`, or as an element of a
    /// list.
    private func matches(_ document: JSONObject) -> Bool {
        when.allSatisfy { field, values in
            guard let held = document[field] else { return false }
            return values.contains { held.shows($0) }
        }
    }
}

/// The key `keep` of an entity: which documents a device may drop, or how long the hub keeps events.
package enum KeepSetting: Hashable, Sendable {
    /// `{ days: 90, when: { status: [done] } }`, for records and reference data.
    case documents(KeepRule)
    /// `400d`, for events, counted from their acceptance.
    case events(Duration)

    /// Not less than 7 days, so that a value in the wrong unit does not remove what was written yesterday.
    package static let eventsRange = Duration.seconds(7 * 86_400)...(.seconds(3_650 * 86_400))
}

extension EntityRules {
    /// ``keep`` and ``keepEvents`` as one key, of which an entity has one form.
    package var declaredKeep: KeepSetting? {
        get { keep.map { .documents($0) } ?? keepEvents.map { .events($0) } }
        set {
            (keep, keepEvents) = (nil, nil)
            switch newValue {
            case .documents(let rule): keep = rule
            case .events(let time): keepEvents = time
            case nil: break
            }
        }
    }
}

extension KeepRule {
    /// The time of a record's last change, on the clock that decides about its document.
    ///
    /// The hub's stamp tells when the record was changed, also where this device receives it late, so that a new device does not hold old
    /// records for the whole time again. Without a trusted time, or with a stamp that says nothing, the record counts as changed now.
    ///
    /// - Parameters:
    ///   - stamp: The hub's stamp of the record; `nil`: it has none.
    ///   - wall: The present time, if a clock can be trusted.
    ///   - age: The present time on the clock that decides, milliseconds.
    package static func changedAt(_ stamp: HybridTime?, wall: Timestamp?, age: Int64) -> Int64 {
        guard let wall, let stamp else { return age }
        let changed = Timestamp(milliseconds: Int64(clamping: stamp.milliseconds))
        guard changed.isPlausible, changed < wall else { return age }
        return age.saturatingSubtract(changed.duration(to: wall).milliseconds)
    }
}
