import SyncHTTP
import SyncThreads

// The main thread does not belong to the runtime, so it may block.
extension LoopExecutor {
    /// Runs async work on this loop, and waits for its end.
    func wait<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
        let answer = Promise<Result<Value, any Error>>()
        Task(executorPreference: self) {
            do { answer.fulfil(.success(try await work())) } catch { answer.fulfil(.failure(error)) }
        }
        return try answer.wait().get()
    }

    func wait(_ work: @escaping @Sendable () async -> Void) {
        let done = Promise<Void>()
        Task(executorPreference: self) {
            await work()
            done.fulfil()
        }
        done.wait()
    }
}
