import Glibc

/// Standard input, output and error of a program that was started without them.
package enum StandardDescriptors {
    /// Opens `/dev/null` for each of them that is closed. Call it before any file is opened. Otherwise the next file or connection would
    /// get the number, and log lines would be written into it.
    package static func fill() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // `open` uses the lowest free number, which is this one. Where it fails, the state is no worse than before.
            _ = open("/dev/null", O_RDWR)
        }
    }
}
