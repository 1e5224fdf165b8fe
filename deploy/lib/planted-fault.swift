// A program with a fault on purpose: what deploy/sanitize must notice before it may say that there is none.

import Glibc

/// Two threads count without a lock.
func race() {
    let number = UnsafeMutablePointer<Int>.allocate(capacity: 1)
    number.initialize(to: 0)
    let count: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { number in
        for _ in 0..<1_000 { number?.assumingMemoryBound(to: Int.self).pointee += 1 }
        return nil
    }
    var (first, second) = (pthread_t(), pthread_t())
    pthread_create(&first, nil, count, number)
    pthread_create(&second, nil, count, number)
    pthread_join(first, nil)
    pthread_join(second, nil)
    print(number.pointee)
}

/// Reads what was given back.
func useAfterFree() {
    let number = UnsafeMutablePointer<Int>.allocate(capacity: 1)
    number.initialize(to: 7)
    number.deallocate()
    print(number.pointee)
}

CommandLine.arguments.dropFirst().first == "thread" ? race() : useAfterFree()
