import CSyncLinux

/// Keeps what the C library holds in reserve small. To be called before the first thread is made.
///
/// It gives threads heaps of their own so that none waits for another, up to eight for each processor, and what is free in one is of no
/// use to the others. A daemon that mostly sleeps pays for that all day: two are as quick here, and an agent that has worked keeps
/// 1 MB less.
package func limitHeaps() {
    csl_limit_arenas(2)
}
