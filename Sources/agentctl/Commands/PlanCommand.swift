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
    @Option(help: "If this link carried the sync.") var link: LinkName?
    @Flag(help: "If its bytes cost money, or not.") var metered: Metered?
    @Flag(help: "If its modem were abroad, or not.") var roaming: Roaming?
    @Option(help: "If the battery had this charge, such as 12%.") var battery: PercentArgument?
    @Flag(help: "If it were charging, or not.") var charging: Charging?
    @Option(help: "If the link's budget had this left, such as 5MB.") var budget: SizeArgument?
    @Flag(help: "If the hub could be reached, or not.") var online: Online?

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.plan(
            PlanBody(
                link: link, isMetered: metered.map { $0 == .metered }, isRoaming: roaming.map { $0 == .roaming },
                batteryPercent: battery?.percent, isCharging: charging.map { $0 == .charging },
                budgetBytes: budget?.bytes, isOnline: online.map { $0 == .online }))
        if let link { await session.noteAbsent(link) }
        session.show(reply) { PlanScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
        return 0
    }
}

enum Charging: String, EnumerableFlag, Sendable { case charging, discharging }
enum Online: String, EnumerableFlag, Sendable { case online, offline }
