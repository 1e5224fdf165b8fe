/// Who is behind a failure, and so what may end the wait for the next attempt early.
///
/// | cause | a new link | new credentials | a configuration that was read again | a request after 10 s | a forced one |
/// |---|---|---|---|---|---|
/// | `between` | ends it | | ends it | goes | goes |
/// | `server` | | | ends it | goes | goes |
/// | `credentials` | | ends it | ends it | waits | waits |
///
/// What the server itself asks for by `Retry-After` is waited for in each case, unless the configuration names another server.
enum FailureCause: Hashable, Sendable {
    /// There was no failure, or it was the store's.
    case none
    /// Silence, a portal, or a proxy that spoke for the server: nobody knows anything about the server itself.
    case between
    case server
    /// The credentials were refused, by the server or by our own disk.
    case credentials
}
