import Testing

/// The built programs, as an operator and an app meet them: processes, sockets and files, nothing replaced.
///
/// One test at a time: each starts several processes, and a gateway has few processors.
@Suite("End to end", .serialized)
enum EndToEnd {}
