import CFuzz
import FuzzKit
import Glibc

/// `fuzz TARGET [options of libFuzzer] [FOLDER…]`: runs one target; without a name it lists them. See `deploy/fuzz`.
@main
struct Fuzz {
    static func main() {
        guard CommandLine.argc > 1, let target = FuzzTarget[CommandLine.arguments[1]] else {
            print(FuzzTarget.all.map(\.name).joined(separator: "\n"))
            exit(CommandLine.argc > 1 ? 64 : 0)
        }
        // The name is ours; libFuzzer gets the rest, and how long an input may be.
        var arguments = [CommandLine.arguments[0], "-max_len=\(target.lengthMax)"] + CommandLine.arguments.dropFirst(2)
        chosen = target
        withCStrings(&arguments) { count, pointers in
            var count = count
            var pointers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = pointers
            _ = LLVMFuzzerRunDriver(&count, &pointers, { testOneInput($0, $1) })
        }
    }
}

/// Set once, before libFuzzer starts.
nonisolated(unsafe) private var chosen = FuzzTarget.all[0]

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    do {
        try chosen.check(Array(UnsafeBufferPointer(start: data, count: size)))
    } catch {
        fatalError("\(chosen.name): \(error)")
    }
    return 0
}

/// C strings that live as long as the call.
private func withCStrings(
    _ texts: inout [String], _ body: (CInt, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Void
) {
    var pointers = texts.map { strdup($0) } + [nil]
    pointers.withUnsafeMutableBufferPointer { body(CInt($0.count - 1), $0.baseAddress!) }
    for pointer in pointers { free(pointer) }
}
