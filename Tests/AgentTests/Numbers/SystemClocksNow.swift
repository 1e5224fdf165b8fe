import SyncCore
import SyncLinux

/// Wall time of this machine.
enum SystemClocksNow {
    static var milliseconds: Int64 { SystemClocks().now().wall.milliseconds }
}
