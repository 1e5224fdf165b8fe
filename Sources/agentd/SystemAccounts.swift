import Agent
import Glibc

/// Users and groups from the system's name service.
enum SystemAccounts {
    static let accounts = Accounts(
        ownUser: geteuid(),
        user: { name in getpwnam(name).map { $0.pointee.pw_uid } },
        group: { name in getgrnam(name).map { $0.pointee.gr_gid } })
}
