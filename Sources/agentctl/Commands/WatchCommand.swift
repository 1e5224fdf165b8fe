import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

struct WatchCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print events as they happen, one line each, until interrupted.",
        discussion:
            """
            The command continues after a restart of the agent without missing an event. If the agent no longer has some, it sends \
            the event reset.

            agentctl watch --type mutation --entity work_orders
            """
    )

    @OptionGroup var global: GlobalOptions
    @Option(help: "Only this type of event; may be repeated.") var type: [EventType] = []
    @Option(help: "Only events of this entity.") var entity: EntityName?
    @Option(help: "Begin after the event with this id. Default: now.") var after: String?

    func run(_ session: Session) async throws -> Int32 {
        let asJSON = session.isJSON
        try await session.client.watch(
            EventQuery(types: type.isEmpty ? nil : type, entity: entity), after: after,
            pause: { CallingThread.pause($0) },
            onGap: { Output.note("agentctl: \(PlainText.safe($0.detail)); trying again") },
            onEvent: { event in
                if asJSON {
                    Output.json(WatchCommand.json(event))
                } else {
                    Output.line(EventLine.text(event, at: SystemClocks().now().wall))
                }
                return true
            })
        return 0
    }

    private static func json(_ event: LocalEvent) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("id", event.id)
            writer.member("event", event.type)
            writer.name("data")
            // The data of an event is JSON from the agent; any other data would break the line, so it is shown as text.
            if (try? JSONReader.read(event.data, limits: .answer)) != nil {
                writer.raw(event.data.filter { $0 != UInt8(ascii: "\n") })
            } else {
                writer.string(String(decoding: event.data, as: UTF8.self))
            }
        }
        return writer.bytes
    }
}
