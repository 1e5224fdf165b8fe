import Glibc

/// Standard input, output and error of a program that was started without them.
package enum StandardDescriptors {
    /// Gives `/dev/null` to each of them that is closed. To be called before anything is opened: the next file or connection
    /// would get the number otherwise, and what is meant for the log would be written into it.
    package static func fill() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free number is taken, which is this one. Where it cannot be opened, nothing is worse than before.
            _ = open("/dev/null", O_RDWR)
        }
    }
}
