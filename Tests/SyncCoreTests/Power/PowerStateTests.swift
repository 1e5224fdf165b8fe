import SyncCore
import Testing

@Suite("Power from readings")
struct PowerStateTests {
    typealias Reading = PowerSupplyReading

    static func supply(_ name: String, _ texts: [Reading.Attribute: String], isTypeCSource: Bool = false) -> Reading {
        Reading(name: name, texts.mapValues { .text($0) }, isTypeCSource: isTypeCSource)
    }

    static func battery(_ percent: String, _ status: String? = "Discharging", _ name: String = "BAT0") -> Reading {
        var texts: [Reading.Attribute: String] = [.type: "Battery", .present: "1", .capacity: percent]
        texts[.status] = status
        return supply(name, texts)
    }

    struct Case: Sendable {
        var what: String
        var readings: [Reading]
        var source: PowerState.Source
        var percent: Int?

        init(_ what: String, _ readings: [Reading], _ source: PowerState.Source, _ percent: Int?) {
            (self.what, self.readings, self.source, self.percent) = (what, readings, source, percent)
        }
    }

    static let mains = supply("AC", [.type: "Mains", .online: "1"])
    static let unplugged = supply("AC", [.type: "Mains", .online: "0"])

    static let cases = [
        Case("a server without supplies", [], .mains, nil),
        Case("plugged in and full", [mains, battery("100", "Full")], .mains, 100),
        Case("unplugged", [unplugged, battery("64")], .battery, 64),
        Case("a charger too weak for the load is external power all the same", [mains, battery("40")], .mains, 40),
        Case("a programmable charger says 2", [supply("USB", [.type: "USB", .online: "2"]), battery("9")], .mains, 9),
        Case("no supply at all, but the battery does not discharge", [battery("50", "Not charging")], .mains, 50),
        Case("unknown is not discharging", [battery("50", "Unknown")], .mains, 50),
        Case("charging", [unplugged, battery("7", "Charging")], .mains, 7),
        Case("without a status it discharges", [battery("50", nil)], .battery, 50),
        Case(
            "the battery of a mouse", [supply("hid", [.type: "Battery", .scope: "Device", .status: "Discharging", .capacity: "3"])],
            .mains, nil),
        Case(
            "an empty slot", [supply("BAT1", [.type: "Battery", .present: "0", .status: "Discharging", .capacity: "0"])],
            .mains, nil),
        Case("a supply that does not say what it is", [supply("x", [.online: "1"]), battery("20")], .battery, 20),
        Case(
            "a port that feeds a phone",
            [
                supply("ucsi", [.type: "USB", .online: "1"], isTypeCSource: true), battery("20"),
            ], .battery, 20),
        Case(
            "energy of two batteries: the small one weighs less",
            [
                supply(
                    "BAT0", [.type: "Battery", .status: "Discharging", .energyNow: "10000000", .energyFull: "20000000", .capacity: "1"]),
                supply("BAT1", [.type: "Battery", .status: "Not charging", .energyNow: "60000000", .energyFull: "60000000"]),
            ], .battery, 87),
        Case(
            "charge where one knows no energy",
            [
                supply(
                    "BAT0",
                    [.type: "Battery", .status: "Discharging", .energyNow: "1", .energyFull: "2", .chargeNow: "300", .chargeFull: "1000"]),
                supply("BAT1", [.type: "Battery", .status: "Full", .chargeNow: "1000", .chargeFull: "1000"]),
            ], .battery, 65),
        Case(
            "mean of the capacities, without the impossible one",
            [battery("20"), battery("40", "Full", "BAT1"), battery("200", "Full", "BAT2")],
            .battery, 30),
        Case("words: critical", [supply("b", [.type: "Battery", .status: "Discharging", .capacityLevel: "Critical"])], .battery, 5),
        Case("words: low", [supply("b", [.type: "Battery", .status: "Discharging", .capacityLevel: "Low"])], .battery, 10),
        Case(
            "words: normal says no number", [supply("b", [.type: "Battery", .status: "Discharging", .capacityLevel: "Normal"])],
            .battery, nil),
        Case(
            "more energy than the gauge thinks fits",
            [
                supply("b", [.type: "Battery", .status: "Discharging", .energyNow: "70", .energyFull: "60"])
            ], .battery, 100),
        Case(
            "a full energy of nothing divides nothing",
            [
                supply("b", [.type: "Battery", .status: "Discharging", .energyNow: "0", .energyFull: "0", .capacity: "33"])
            ], .battery, 33),
        Case(
            "nonsense everywhere",
            [
                supply(
                    "b",
                    [
                        .type: "Battery", .status: "Discharging", .energyNow: "-5", .energyFull: "9223372036854775807",
                        .chargeNow: "99999999999999999999", .chargeFull: "x", .capacity: "-1", .capacityLevel: "\u{7F}",
                    ])
            ], .battery, nil),
    ]

    @Test("Each rule of the table", arguments: cases)
    func rules(_ example: Case) {
        #expect(PowerState(example.readings) == PowerState(source: example.source, percent: example.percent), "\(example.what)")
    }

    @Test("A supply that matters and cannot be read leaves the state open; one that does not matter does not")
    func failed() {
        var broken = Self.battery("50")
        broken.values[.status] = .failed
        #expect(PowerState([broken]) == nil)
        var port = Self.mains
        port.values[.online] = .failed
        #expect(PowerState([port, Self.battery("50")]) == nil)
        broken.values[.scope] = .text("Device")
        #expect(PowerState([broken]) == PowerState(source: .mains))
        var unnamed = Self.battery("50")
        unnamed.values[.type] = .failed
        #expect(PowerState([unnamed]) == PowerState(source: .mains))
    }

    @Test("A level begins below its threshold and ends only the margin above it, or at a charger")
    func hysteresis() {
        var level = PowerLevel.ample
        let steps: [(Int, PowerLevel)] = [
            (31, .ample), (30, .ample), (29, .saver), (32, .saver), (33, .ample), (29, .saver), (15, .saver), (14, .low), (15, .low),
            (17, .low), (18, .saver), (14, .low), (5, .low), (4, .exhausted), (7, .exhausted), (8, .low), (40, .ample), (3, .exhausted),
        ]
        for (percent, expected) in steps {
            level = level.next(PowerState(source: .battery, percent: percent), PowerThresholds())
            #expect(level == expected, "at \(percent) %")
        }
        #expect(level.next(PowerState(source: .mains, percent: 3), PowerThresholds()) == .ample)
        #expect(level.next(PowerState(source: .battery), PowerThresholds()) == .ample)
    }

    @Test("A threshold of 0 switches its level off, and no setting makes a fuller battery harder")
    func thresholds() {
        let settings = [0, 1, 4, 5, 15, 100].flatMap { low in
            [0, 15, 30, 100].flatMap { saver in
                [0, 3, 100, Int.max].map { margin in
                    var thresholds = PowerThresholds()
                    (thresholds.low, thresholds.saver, thresholds.margin) = (low, saver, margin)
                    return thresholds
                }
            }
        }
        for thresholds in settings {
            for before in PowerLevel.allCases {
                let levels = (0...100).map { before.next(PowerState(source: .battery, percent: $0), thresholds) }
                #expect(zip(levels, levels.dropFirst()).allSatisfy { $0 >= $1 })
                if thresholds.low == 0 { #expect(levels.allSatisfy { $0 < .low }) }
                if thresholds.saver == 0 { #expect(!levels.contains(.saver)) }
            }
        }
    }

    @Test("A gauge that fails is believed for five minutes, then the device is taken to be on mains, with a warning")
    func patience() {
        func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }
        var meter = PowerMeter()
        var broken = Self.battery("10")
        broken.values[.capacity] = .failed
        let isLow = meter.update([Self.battery("10")], PowerThresholds(), now: at(0))
        #expect(isLow)
        #expect(meter.level == .low)
        let changed = meter.update([broken], PowerThresholds(), now: at(300))
        #expect(!changed)
        #expect(meter.level == .low)
        let isUnknown = meter.update(nil, PowerThresholds(), now: at(301))
        #expect(isUnknown)
        #expect(meter.state.source == .unknown && meter.state.warning != nil)
        #expect(meter.level == .ample)
        meter.update([Self.battery("16")], PowerThresholds(), now: at(302))
        #expect(meter.level == .saver, "what was low before the gap is not remembered: the charger may have been there")
    }

    @Test("A device whose gauge never answered is on mains, with a warning")
    func neverRead() {
        var meter = PowerMeter()
        meter.update(nil, PowerThresholds(), now: Instant(nanoseconds: 0))
        #expect(meter.state.source == .unknown)
    }
}
