import ArgumentParser
import LocalAPI
import SyncCore

struct PlanCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what would be sent and what would wait under other conditions. Nothing is sent.",
        discussion: """
            Conditions without an option are the present ones. For example, this shows what is still sent over the modem on a low \
            battery: agentctl plan --link wwan0 --metered --battery 12%
            """)

    @OptionGroup var global: GlobalOptions
    @Option(help: "Assume that this link carries the sync.") var link: LinkName?
    @Flag(help: "Assume that its bytes cost money, or not.") var metered: Metered?
    @Flag(help: "Assume that its modem is abroad, or not.") var roaming: Roaming?
    @Option(help: "Assume this charge of the battery, such as 12%.") var battery: PercentArgument?
    @Flag(help: "Assume that it is charging, or not.") var charging: Charging?
    @Option(help: "Assume this rest of the link's budget, such as 5MB.") var budget: SizeArgument?
    @Flag(help: "Assume that the hub can be reached, or not.") var online: Online?

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.plan(
            PlanBody(
                link: link, isMetered: metered.map { $0 == .metered }, isRoaming: roaming.map { $0 == .roaming },
                batteryPercent: battery?.percent, isCharging: charging.map { $0 == .charging },
                budgetBytes: budget?.bytes, isOnline: online.map { $0 == .online }))
        if let link { await session.warnIfAbsent(link) }
        session.show(reply) { PlanScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
        return 0
    }
}

enum Charging: String, EnumerableFlag, Sendable { case charging, discharging }
enum Online: String, EnumerableFlag, Sendable { case online, offline }
