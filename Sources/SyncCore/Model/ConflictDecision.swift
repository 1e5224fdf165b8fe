/// The decision of a person about a conflict.
package struct ConflictDecision: Hashable, Sendable {
    package enum Choice: Hashable, Sendable {
        case local, remote
        /// A new value in place of both sides.
        case value(JSON)
    }

    package enum Scope: Hashable, Sendable {
        case all(Choice)
        /// A choice for each disputed field.
        case fields([String: Choice])
    }

    package var scope: Scope
    package var comment: String?
    package var author: String?
    /// The version of the hub's side that the person saw. The decision is refused if another version is present now.
    package var expectedRemoteVersion: Int64?
    /// Discards the whole atomic list of the disputed change.
    package var letsGoOfList: Bool

    package init(
        _ scope: Scope, comment: String? = nil, author: String? = nil, expectedRemoteVersion: Int64? = nil, letsGoOfList: Bool = false
    ) {
        self.scope = scope
        self.comment = comment
        self.author = author
        self.expectedRemoteVersion = expectedRemoteVersion
        self.letsGoOfList = letsGoOfList
    }
}
