import Glibc

/// The user who runs the command: the one that the history of settings and of grants names.
func operatorName() -> String {
    getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "uid \(geteuid())"
}
