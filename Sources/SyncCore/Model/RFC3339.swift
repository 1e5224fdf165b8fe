/// Dates as RFC 3339 text in UTC, without a calendar library: proleptic Gregorian, years 1 to 9999.
package enum RFC3339 {
    /// The time as text, such as `2026-11-20T21:04:05.120Z`. A time outside the years 1 to 9999 is limited to that range.
    package static func text(_ timestamp: Timestamp) -> String {
        let clamped = min(max(timestamp.milliseconds, -62_135_596_800_000), 253_402_300_799_999)
        let (days, inDay) = clamped.quotientAndRemainder(flooringBy: 86_400_000)
        let (year, month, day) = civil(fromDays: days)
        var text = ""
        text.reserveCapacity(24)
        append(&text, year, digits: 4)
        text += "-"
        append(&text, month, digits: 2)
        text += "-"
        append(&text, day, digits: 2)
        text += "T"
        append(&text, inDay / 3_600_000, digits: 2)
        text += ":"
        append(&text, inDay / 60_000 % 60, digits: 2)
        text += ":"
        append(&text, inDay / 1_000 % 60, digits: 2)
        text += "."
        append(&text, inDay % 1_000, digits: 3)
        text += "Z"
        return text
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`. A leap second (`:60`) counts as `:59`; digits of the fraction
    /// after the third are dropped.
    ///
    /// - Returns: `nil` for any other text, also for a date that does not exist.
    package static func timestamp(_ text: String) -> Timestamp? {
        var bytes = Array(text.utf8)[...]
        guard let year = number(&bytes, digits: 4), skip(&bytes, "-"),
            let month = number(&bytes, digits: 2), skip(&bytes, "-"),
            let day = number(&bytes, digits: 2),
            skip(&bytes, "T") || skip(&bytes, "t") || skip(&bytes, " "),
            let hour = number(&bytes, digits: 2), skip(&bytes, ":"),
            let minute = number(&bytes, digits: 2), skip(&bytes, ":"),
            let second = number(&bytes, digits: 2),
            (1...9999).contains(year), (1...12).contains(month), day >= 1, day <= daysInMonth(year, month),
            hour <= 23, minute <= 59, second <= 60
        else { return nil }
        var milliseconds: Int64 = 0
        if skip(&bytes, ".") {
            var scale: Int64 = 100
            var digits = 0
            while let byte = bytes.first, byte >= 48, byte <= 57 {
                milliseconds += Int64(byte - 48) * scale
                scale /= 10
                digits += 1
                bytes = bytes.dropFirst()
            }
            if digits == 0 { return nil }
        }
        var offset: Int64 = 0
        if !(skip(&bytes, "Z") || skip(&bytes, "z")) {
            let sign: Int64
            if skip(&bytes, "+") { sign = 1 } else if skip(&bytes, "-") { sign = -1 } else { return nil }
            guard let hours = number(&bytes, digits: 2), skip(&bytes, ":"), let minutes = number(&bytes, digits: 2),
                hours <= 23, minutes <= 59
            else { return nil }
            offset = sign * (hours * 3_600 + minutes * 60)
        }
        guard bytes.isEmpty else { return nil }
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + min(second, 59) - offset
        return Timestamp(milliseconds: seconds * 1_000 + milliseconds)
    }

    /// Days since 1970-01-01 of a civil date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    package static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let y = month <= 2 ? year - 1 : year
        let era = (y >= 0 ? y : y - 399) / 400
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    package static func civil(fromDays days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func daysInMonth(_ year: Int64, _ month: Int64) -> Int64 {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func append(_ text: inout String, _ value: Int64, digits: Int) {
        let digitsText = String(value)
        for _ in 0..<max(0, digits - digitsText.utf8.count) { text += "0" }
        text += digitsText
    }

    private static func number(_ bytes: inout ArraySlice<UInt8>, digits: Int) -> Int64? {
        guard bytes.count >= digits else { return nil }
        var value: Int64 = 0
        for byte in bytes.prefix(digits) {
            guard byte >= 48, byte <= 57 else { return nil }
            value = value * 10 + Int64(byte - 48)
        }
        bytes = bytes.dropFirst(digits)
        return value
    }

    private static func skip(_ bytes: inout ArraySlice<UInt8>, _ character: Unicode.Scalar) -> Bool {
        guard bytes.first == UInt8(ascii: character) else { return false }
        bytes = bytes.dropFirst()
        return true
    }
}

extension Int64 {
    fileprivate func quotientAndRemainder(flooringBy divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
