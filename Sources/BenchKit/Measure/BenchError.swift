package import CBenchFloors

/// The reason why a measurement failed, shown to the user.
package struct BenchError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

extension bench_failure {
    package var message: String {
        withUnsafeBytes(of: text) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}

/// Calls C code, and throws the call's message when it returns other than 0.
package func checked(_ doing: String, _ call: (UnsafeMutablePointer<bench_failure>) -> Int32) throws {
    var failure = bench_failure()
    if call(&failure) != 0 { throw BenchError("\(doing): \(failure.message)") }
}
