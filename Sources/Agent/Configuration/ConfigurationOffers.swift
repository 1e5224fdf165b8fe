import SyncCore

/// The settings that the hub sends to this agent (PROTOCOL A12): the version that it offers, the one in force, and the one that was
/// refused.
package struct ConfigurationOffers: Sendable {
    /// The settings that the hub has sent; `nil` as long as it has sent none.
    package private(set) var inForce: ServerConfiguration?
    /// The version that the hub named last.
    package private(set) var offered: Int64?
    /// The version that was refused last.
    package private(set) var refused: Int64?
    /// The settings are being fetched.
    package private(set) var isFetching = false

    package init() {}

    /// Records the version that every answer of the hub names.
    package mutating func handle(_ answer: HubAnswer) {
        if let version = answer.headers?.config { offered = version }
    }

    /// The hub offers settings that were neither taken over nor refused.
    package var isOpen: Bool {
        guard let offered else { return false }
        return offered != inForce?.version && offered != refused
    }

    /// - Parameter mayAsk: The hub may be asked now.
    /// - Returns: `true` when the settings must be fetched; ``fetched(_:)`` ends that.
    package mutating func fetch(mayAsk: Bool) -> Bool {
        guard mayAsk, !isFetching, isOpen else { return false }
        isFetching = true
        return true
    }

    /// - Returns: The settings that the hub has sent; `nil` when it has sent none, and the next cycle asks again.
    package mutating func fetched(_ answer: HubAnswer) -> [UInt8]? {
        isFetching = false
        guard case .success(let response) = answer.result, response.status == 200, answer.headers != nil else { return nil }
        return response.body
    }

    /// Records that the settings are in force.
    package mutating func use(_ server: ServerConfiguration) {
        inForce = server
    }

    /// Records that new settings were accepted.
    package mutating func accepted() {
        refused = nil
    }

    /// Records that the offered settings were refused: they are not fetched again.
    package mutating func refuse() {
        refused = offered
    }
}
