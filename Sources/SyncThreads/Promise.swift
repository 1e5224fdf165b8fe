/// One value that a thread waits for and another thread provides.
///
/// The waiting thread is blocked, so it must be neither one of the runtime's nor a loop.
package final class Promise<Value: Sendable>: Sendable {
    private let value = Waitable<Value?>(nil)

    package init() {}

    /// Provides the value. The first one stays.
    package func fulfil(_ value: Value) {
        self.value.change { $0 = $0 ?? value }
    }

    package var isFulfilled: Bool { value.change(waking: false) { $0 != nil } }

    package func wait() -> Value {
        value.wait { $0 }
    }

    /// - Returns: `nil` when the value did not come within the time.
    package func wait(atMost patience: Duration) -> Value? {
        let (seconds, attoseconds) = patience.components
        return value.wait(until: MonotonicTime.now() + seconds * 1_000_000_000 + attoseconds / 1_000_000_000) { $0 }
    }
}

extension Promise<Void> {
    package func fulfil() {
        fulfil(())
    }
}
