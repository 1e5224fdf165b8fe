/// The origin of a failure, which decides what may end the wait for the next attempt early.
///
/// | cause | a new link | new credentials | a configuration that was read again | a request after 10 s | a forced one |
/// |---|---|---|---|---|---|
/// | `between` | ends it | | ends it | goes | goes |
/// | `server` | | | ends it | goes | goes |
/// | `credentials` | | ends it | ends it | waits | waits |
///
/// A delay that the server itself asks for by `Retry-After` is kept in each case, unless the configuration names another server.
enum FailureCause: Hashable, Sendable {
    /// There was no failure, or it was in the store.
    case none
    /// Silence, a portal, or a proxy that answered for the server: the state of the server itself is unknown.
    case between
    case server
    /// The server refused the credentials, or they could not be read from disk.
    case credentials
}
