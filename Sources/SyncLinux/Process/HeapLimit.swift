import CSyncLinux

/// Limits the memory that the C library keeps in reserve. Call it before the first thread is made.
///
/// The library gives threads separate heaps so that none waits for another, up to eight for each processor. Free memory of one heap is of
/// no use to the others, and a daemon that mostly sleeps pays for it all day. Two heaps are as quick here, and an agent that has worked
/// keeps 1 MB less.
package func limitHeaps() {
    csl_limit_arenas(2)
}
