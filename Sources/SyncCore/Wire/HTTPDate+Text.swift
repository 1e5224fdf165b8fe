extension HTTPDate {
    /// The one form that is written, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7). Years 1970 to 9999.
    package static func text(_ time: Timestamp) -> String {
        let clamped = Timestamp(milliseconds: min(max(0, time.milliseconds), 253_402_300_799_000))
        let text = Array(RFC3339.text(clamped))
        let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let month = Int(String(text[5..<7])) ?? 1
        let weekday = weekdays[Int(clamped.milliseconds / 86_400_000 % 7)]
        return "\(weekday), \(String(text[8..<10])) \(months[month - 1]) \(String(text[0..<4])) \(String(text[11..<19])) GMT"
    }
}
