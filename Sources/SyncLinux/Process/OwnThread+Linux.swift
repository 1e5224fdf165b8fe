import SyncThreads

extension OwnThread {
    /// - Throws: `.exhausted` when the system has no thread left.
    static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(LinuxError) -> OwnThread {
        do throws(ThreadError) {
            return try OwnThread(name: name, body)
        } catch {
            throw LinuxError(Errno(number: error.errno).code, doing: "start the thread \(name)", errno: error.errno)
        }
    }
}
