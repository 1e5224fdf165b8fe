// Rules for the clock that stamps follow, and for the largest change that any outside source may cause (PROTOCOL A11).
//
// Stamps (``HybridTime``) order the contests of `lww`. They come from boot time plus an anchor (``ClockAnchor``), and the anchor comes from
// the hub's `Sync-Time`, or from a kernel that reports its clock as synchronised. A hub may be wrong once, for an hour or by a unit
// (microseconds instead of milliseconds), so these rules hold:
//
// 1. A time outside ``Timestamp/plausible`` is not a time. It is dropped wherever it comes from: the hub, the wall clock, the database. So
//   a stamp never needs more than 43 of its 48 bits, and packing it for the database cannot overflow.
// 2. An answer that moves the known time by more than ``HybridClock/aheadMax`` is doubted (``ClockOffset``). It counts when enough answers
//   in a row agree with it. So one wrong answer moves nothing, and a hub whose clock was corrected is followed.
// 3. A stamp of another device moves our clock at most ``HybridClock/aheadMax`` ahead (``HybridClock/observe(_:now:)``).
// 4. The last stamp is the lower limit of the next one only while it lies at most ``HybridClock/aheadMax`` ahead of the trusted time. A
//   last stamp beyond that was made by a wrong clock, and the clock goes back to the trusted time, also after restarts.
// 5. A mutation that was stamped by a wrong clock and was not sent yet is stamped again when it is sent (`retro`). A sent mutation keeps
//   its stamp; the hub accepts no stamp that lies more than ``HybridClock/aheadMax`` ahead of its own time.
//
// Going back (rule 4) breaks no order that matters. Changes of one record by one device are ordered by `seq` and by versions, never by
// stamps. Stamps decide only between devices, and there a stamp from a wrong clock has no value.

extension Timestamp {
    /// The range in which a clock is believed: 2025-01-01, before the first release, to 2100-01-01.
    package static let plausible = Timestamp(milliseconds: 1_735_689_600_000)..<Timestamp(milliseconds: 4_102_444_800_000)

    /// `true` when a clock with this time can be right.
    package var isPlausible: Bool { Timestamp.plausible.contains(self) }
}
