/// One reader of bytes from outside, and the claims that must hold for all bytes.
///
/// No target may trap. Each one also claims something about the value that was read: it writes back to the same, it does not depend on the
/// places where the bytes were cut, a refusal left no trace, a limit held. The same functions are called by libFuzzer (`deploy/fuzz`) and,
/// with every entry of the corpus, by the tests.
package struct FuzzTarget: Sendable {
    /// Also the name of its folder in the corpus.
    package let name: String
    /// Longest input that is worth a try, bytes: long enough to pass each limit that a target makes small for it.
    package let lengthMax: Int
    /// - Throws: ``Broken`` when a claim does not hold. Acceptance and refusal of the bytes are equally good here.
    package let check: @Sendable ([UInt8]) throws -> Void

    init(_ name: String, lengthMax: Int = 4_096, check: @escaping @Sendable ([UInt8]) throws -> Void) {
        self.name = name
        self.lengthMax = lengthMax
        self.check = check
    }

    package static let all: [FuzzTarget] = [
        .json, .localBody, .localRoute, .localHTTP, .lines, .events,
        .configuration, .hubConfiguration, .schema, .document,
        .hubAnswer, .hubHead, .hubRequest, .cursor, .restList, .stamp, .tus, .tusAnswers, .gunzip,
        .netlink, .uevent, .sysfs, .lease, .controlMessages,
    ]

    package static subscript(name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// A claim that does not hold.
package struct Broken: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// - Throws: ``Broken`` with those words unless the claim holds.
func claim(_ holds: Bool, _ words: @autoclosure () -> String) throws {
    if !holds { throw Broken(words()) }
}

/// Takes one byte off the front to choose by: `nil` when there is none.
func choice(_ bytes: inout ArraySlice<UInt8>, of count: Int) -> Int? {
    bytes.popFirst().map { Int($0) % count }
}

extension ArraySlice<UInt8> {
    var asText: String { String(decoding: self, as: UTF8.self) }

    /// The bytes in pieces, cut where a small generator says; the same bytes are always cut the same way.
    var pieces: [ArraySlice<UInt8>] {
        var state = UInt32(truncatingIfNeeded: count) &* 2_654_435_761
        var rest = self
        var pieces: [ArraySlice<UInt8>] = []
        while !rest.isEmpty {
            state = state &* 1_664_525 &+ 1_013_904_223
            let length = Swift.min(rest.count, 1 + Int(state >> 28))
            pieces.append(rest.prefix(length))
            rest = rest.dropFirst(length)
        }
        return pieces
    }
}
