/// Users and groups of this machine. They are passed in, so that the configuration can be read anywhere without asking NSS.
package struct Accounts: Sendable {
    /// The user id that the agent runs as.
    package var ownUser: UInt32
    /// `getpwnam`: `nil` when no user has that name.
    package var user: @Sendable (_ name: String) -> UInt32?
    /// `getgrnam`.
    package var group: @Sendable (_ name: String) -> UInt32?

    package init(
        ownUser: UInt32, user: @escaping @Sendable (String) -> UInt32?, group: @escaping @Sendable (String) -> UInt32?
    ) {
        self.ownUser = ownUser
        self.user = user
        self.group = group
    }

    /// A user by name, or by number where no user has that name (a container without `/etc/passwd`).
    package func named(user name: String) -> Account? {
        (user(name) ?? number(name)).map { Account(name: name, id: $0) }
    }

    package func named(group name: String) -> Account? {
        (group(name) ?? number(name)).map { Account(name: name, id: $0) }
    }

    /// Reads a number. 2^32-1 means "no id" to the kernel (chown(2)), so it is refused.
    private func number(_ text: String) -> UInt32? {
        guard text.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let id = UInt32(text), id != .max else { return nil }
        return id
    }
}

/// A user or a group: its name as written, and its number.
package struct Account: Hashable, Sendable {
    /// The number that the kernel shows for users and groups that our user namespace cannot map (user_namespaces(7)).
    package static let unmapped: UInt32 = 65_534

    package var name: String
    package var id: UInt32

    package init(name: String, id: UInt32) {
        self.name = name
        self.id = id
    }
}
