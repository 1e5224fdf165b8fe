extension LinearPattern {
    /// A set of characters.
    struct Class: Hashable, Sendable {
        var ranges: [ClosedRange<UInt32>] = []
        var categories: [Category] = []
        var isNegated = false
        /// The characters below 128 that it has, as bits. Most texts need nothing else.
        private var low: UInt64 = 0
        private var high: UInt64 = 0

        init(ranges: [ClosedRange<UInt32>] = [], categories: [Category] = [], isNegated: Bool = false) {
            self.ranges = ranges
            self.categories = categories
            self.isNegated = isNegated
        }

        static func one(_ scalar: UInt32) -> Class { Class(ranges: [scalar...scalar]).prepared }

        /// The only character that it has, if it is one.
        var single: UInt32? {
            guard !isNegated, categories.isEmpty, ranges.count == 1, ranges[0].count == 1 else { return nil }
            return ranges[0].lowerBound
        }

        /// The same class, ready to be asked.
        var prepared: Class {
            var result = self
            (result.low, result.high) = (0, 0)
            for range in ranges where range.lowerBound < 128 {
                for value in range.clamped(to: 0...127) {
                    if value < 64 { result.low |= 1 << value } else { result.high |= 1 << (value - 64) }
                }
            }
            if !categories.isEmpty {
                for value in UInt32(0)..<128 where hasCategory(of: Unicode.Scalar(UInt8(value))) {
                    if value < 64 { result.low |= 1 << value } else { result.high |= 1 << (value - 64) }
                }
            }
            if isNegated { (result.low, result.high) = (~result.low, ~result.high) }
            return result
        }

        func contains(_ scalar: Unicode.Scalar) -> Bool {
            let value = scalar.value
            if value < 64 { return low >> value & 1 == 1 }
            if value < 128 { return high >> (value - 64) & 1 == 1 }
            return (ranges.contains { $0.contains(value) } || !categories.isEmpty && hasCategory(of: scalar)) != isNegated
        }

        private func hasCategory(of scalar: Unicode.Scalar) -> Bool {
            let bit = Category.bit(of: scalar.properties.generalCategory)
            return categories.contains { $0.bits & bit != 0 }
        }
    }

    /// One or more general categories of Unicode (UAX #44, section 5.7.1).
    struct Category: Hashable, Sendable {
        /// A bit for each of ``names``.
        let bits: UInt32

        private static let names: [(short: String, long: String, category: Unicode.GeneralCategory)] = [
            ("Lu", "Uppercase_Letter", .uppercaseLetter), ("Ll", "Lowercase_Letter", .lowercaseLetter),
            ("Lt", "Titlecase_Letter", .titlecaseLetter), ("Lm", "Modifier_Letter", .modifierLetter), ("Lo", "Other_Letter", .otherLetter),
            ("Mn", "Nonspacing_Mark", .nonspacingMark), ("Mc", "Spacing_Mark", .spacingMark), ("Me", "Enclosing_Mark", .enclosingMark),
            ("Nd", "Decimal_Number", .decimalNumber), ("Nl", "Letter_Number", .letterNumber), ("No", "Other_Number", .otherNumber),
            ("Pc", "Connector_Punctuation", .connectorPunctuation), ("Pd", "Dash_Punctuation", .dashPunctuation),
            ("Ps", "Open_Punctuation", .openPunctuation), ("Pe", "Close_Punctuation", .closePunctuation),
            ("Pi", "Initial_Punctuation", .initialPunctuation), ("Pf", "Final_Punctuation", .finalPunctuation),
            ("Po", "Other_Punctuation", .otherPunctuation), ("Sm", "Math_Symbol", .mathSymbol), ("Sc", "Currency_Symbol", .currencySymbol),
            ("Sk", "Modifier_Symbol", .modifierSymbol), ("So", "Other_Symbol", .otherSymbol), ("Zs", "Space_Separator", .spaceSeparator),
            ("Zl", "Line_Separator", .lineSeparator), ("Zp", "Paragraph_Separator", .paragraphSeparator), ("Cc", "Control", .control),
            ("Cf", "Format", .format), ("Cs", "Surrogate", .surrogate), ("Co", "Private_Use", .privateUse),
            ("Cn", "Unassigned", .unassigned),
        ]
        /// Names of all categories with the same first letter.
        private static let groups = [
            ("L", "Letter"), ("M", "Mark"), ("N", "Number"), ("P", "Punctuation"), ("S", "Symbol"), ("Z", "Separator"), ("C", "Other"),
        ]

        /// - Parameter name: A short or long name. `digit` is an old name of `Nd`.
        static func named(_ name: String) -> Category? {
            if name == "digit" { return named("Nd") }
            if let place = names.firstIndex(where: { $0.short == name || $0.long == name }) { return Category(bits: 1 << UInt32(place)) }
            guard let group = groups.first(where: { $0.0 == name || $0.1 == name }) else { return nil }
            var bits: UInt32 = 0
            for (place, entry) in names.enumerated() where entry.short.hasPrefix(group.0) { bits |= 1 << UInt32(place) }
            return Category(bits: bits)
        }

        static func bit(of category: Unicode.GeneralCategory) -> UInt32 {
            names.firstIndex { $0.category == category }.map { 1 << UInt32($0) } ?? 0
        }
    }
}
