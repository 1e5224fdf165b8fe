import Glibc

/// Progress and remarks on standard error: standard output has results only.
package enum Talk {
    package static func say(_ text: String) {
        let line = Array((text + "\n").utf8)
        // A closed standard error only costs the remark.
        _ = write(STDERR_FILENO, line, line.count)
    }
}
