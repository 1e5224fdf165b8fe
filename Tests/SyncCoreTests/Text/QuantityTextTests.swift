import SyncCore
import Testing

@Suite("Sizes as text") struct SizeTextTests {
    @Test(
        "Sizes carry their unit",
        arguments: [
            ("0B", 0), ("200B", 200), ("64KB", 64_000), ("5MB", 5_000_000), ("2GB", 2_000_000_000), ("10KiB", 10_240),
            ("1MiB", 1_048_576), ("1GiB", 1_073_741_824), ("5", nil), ("MB", nil), ("5 MB", nil), ("5mb", nil),
            ("-5MB", nil), ("5.5MB", nil), ("5MBx", nil), ("", nil), ("９MB", nil), ("9223372036854775807B", .max),
            ("007KB", nil), ("9223372036854775807KB", nil), ("99999999999999999999B", nil),
        ] as [(String, Int64?)])
    func readSizes(_ text: String, _ bytes: Int64?) { #expect(SizeText.parse(text) == bytes) }

    @Test(
        "Sizes are written with the smaller number of the two systems",
        arguments: [
            (0, "0B"), (1, "1B"), (999, "999B"), (1_000, "1KB"), (1_024, "1KiB"), (10_240, "10KiB"),
            (512_000_000, "512MB"),
            (1_048_576, "1MiB"), (2_000_000_000, "2GB"), (2_147_483_648, "2GiB"), (1_001, "1001B"),
            (.max, "9223372036854775807B"),
        ] as [(Int64, String)])
    func writtenSizes(bytes: Int64, text: String) {
        #expect(SizeText.exact(bytes) == text)
        #expect(SizeText.parse(text) == bytes)
    }

    @Test(
        "Sizes have one decimal below ten of their unit",
        arguments: [
            (0, "0 B"), (-5, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (1_049, "1.0 KB"), (1_050, "1.1 KB"),
            (9_949, "9.9 KB"), (9_950, "10 KB"), (18_211, "18 KB"), (999_499, "999 KB"), (999_500, "1.0 MB"),
            (4_610_000, "4.6 MB"), (12_000_000_000, "12 GB"), (.max, "9223372 TB"),
        ] as [(Int64, String)])
    func readableSizes(_ value: Int64, _ text: String) { #expect(SizeText.readable(value) == text) }
}

@Suite("Durations as text") struct DurationTextTests {
    @Test(
        "A number with its unit is read, anything else is not",
        arguments: [
            ("500ms", Duration.milliseconds(500)), ("30s", .seconds(30)), ("5m", .seconds(300)),
            ("2h", .seconds(7_200)),
            ("7d", .seconds(604_800)), ("0s", .zero), ("", nil), ("5", nil), ("-5s", nil), ("+5s", nil), ("1.5h", nil),
            ("5 m", nil), ("5w", nil), ("s", nil), ("99999999999999999999s", nil), ("9223372036854775807d", nil),
            ("٣s", nil), ("05s", nil), ("3650000d", .seconds(3_650_000 * 86_400)), ("3650001d", nil),
        ] as [(String, Duration?)])
    func reads(_ text: String, _ duration: Duration?) {
        #expect(DurationText.parse(text) == duration)
    }

    @Test(
        "Durations are written in the unit people would take",
        arguments: [
            (Duration.zero, "0s"), (.milliseconds(500), "500ms"), (.seconds(1), "1s"), (.milliseconds(1_500), "1500ms"),
            (.seconds(60), "60s"), (.seconds(90), "90s"), (.seconds(120), "2m"), (.seconds(3_600), "1h"), (.seconds(86_400), "24h"),
            (.seconds(604_800), "7d"),
        ] as [(Duration, String)])
    func writtenDurations(duration: Duration, text: String) {
        #expect(DurationText.exact(duration) == text)
        #expect(DurationText.parse(text) == duration)
    }

    @Test(
        "Durations have two units at most and are never negative",
        arguments: [
            (Duration.zero, "0 s"), (.seconds(-5), "0 s"), (.seconds(119), "119 s"), (.seconds(120), "2 min"),
            (.seconds(7_199), "119 min"), (.seconds(7_200), "2 h 00 min"), (.seconds(11_040), "3 h 04 min"),
            (.seconds(172_800), "2 d 00 h"), (.seconds(274_320), "3 d 04 h"),
        ])
    func readableDurations(_ duration: Duration, _ text: String) { #expect(DurationText.readable(duration) == text) }

    @Test("At a glance, only the first part of a duration")
    func roughDuration() {
        #expect(
            [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map { DurationText.rough(.seconds($0)) } == [
                "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d",
            ])
    }

    @Test("An age says that it is one")
    func ages() {
        let time = Timestamp(milliseconds: 0)
        #expect(DurationText.age(of: time, at: time.advanced(by: .seconds(2_460))) == "41 min ago")
    }
}
