import CBenchFloors
import FoundationEssentials
import Glibc

/// The machine of the measurement: figures mean nothing without it.
package struct Machine {
    package let processor: String
    package let cores: Int
    package let kernel: String
    package let sqlite: String

    package init() {
        let info =
            FileManager.default.contents(atPath: "/proc/cpuinfo").map { String(decoding: $0, as: UTF8.self) } ?? ""
        processor =
            info.split(separator: "\n").first { $0.hasPrefix("model name") || $0.hasPrefix("Model") }
            .flatMap { $0.split(separator: ":", maxSplits: 1).last.map { String($0.drop { $0 == " " }) } }
            ?? "unknown processor"
        cores = sysconf(Int32(_SC_NPROCESSORS_ONLN))
        kernel =
            FileManager.default.contents(atPath: "/proc/sys/kernel/osrelease")
            .map { String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self) } ?? "unknown"
        sqlite = String(cString: bench_sqlite_version())
    }
}
