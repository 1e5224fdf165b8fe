import SyncCore

extension JSON {
    /// A measured value for a report, rounded to two decimals; `null` if it is no number.
    static func hundredths(_ value: Double) -> JSON { JSONNumber((value * 100).rounded() / 100).map { .number($0) } ?? .null }
}
