import Glibc
import SyncCore

/// The environment of the process.
enum Environment {
    static func value(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Returns whether access fails because of permissions of the file or of a folder above it.
    static func isForbidden(_ path: String) -> Bool {
        access(path, R_OK | W_OK) != 0 && errno == EACCES
    }

    /// The group whose members may open a file; `nil` where there is none, or it cannot be determined. For a file in a folder that may not
    /// be entered, the folder decides.
    static func group(thatMayOpen path: String) -> String? {
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        for place in [path, folder] {
            var facts = stat()
            guard stat(place, &facts) == 0 else { continue }
            guard facts.st_mode & 0o060 == 0o060 || (place == folder && facts.st_mode & 0o010 != 0), let entry = getgrgid(facts.st_gid)
            else { return nil }
            return String(cString: entry.pointee.gr_name)
        }
        return nil
    }

    /// The user who runs this program, by name, or by number where there is no name.
    static var user: String { getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "\(geteuid())" }

    /// Waits a little for a missing file: an agent that was just started creates its socket after it has opened its database.
    static func awaitFile(_ path: String) {
        for _ in 0..<40 where access(path, F_OK) != 0 && errno == ENOENT { usleep(50_000) }
    }

    /// `true` when the output has colour: only on a terminal, and never with `NO_COLOR` (no-color.org: any value that is not empty).
    static var usesColor: Bool {
        isTerminal(STDOUT_FILENO) && (value("NO_COLOR") ?? "").isEmpty && value("TERM") != "dumb"
    }

    /// `true` when the terminal can show more than ASCII (locale(7): the first of these that is set counts).
    static var isUTF8: Bool {
        let name = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { value($0) }.first { !$0.isEmpty } ?? ""
        let upper = name.uppercased()
        return upper.hasSuffix("UTF-8") || upper.hasSuffix("UTF8")
    }

    /// Width of the terminal, columns; 80 when there is none.
    static var width: Int {
        var size = winsize()
        let descriptor = isTerminal(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Offset of local time from UTC at `time`, by the C library.
    static func offset(at time: Timestamp) -> Duration {
        var seconds = time_t(time.milliseconds / 1_000)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return .zero }
        return .seconds(parts.tm_gmtoff)
    }
}
