import ArgumentParser
import HubServer
import SyncCore
import SyncLinux

/// `agenthub why DEVICE ENTITY/ID`: explains why a device has a record or lacks it, also beside a running server.
struct WhyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "why", abstract: "Explain why a device receives a record, or does not.",
        discussion: """
            The command reads the hub's database and changes nothing. Its last line is the command that helps. Exit status 66: the hub \
            does not know the device or the entity.

            A device may lack a record that it receives, because it has not pulled since the last change. The hub notes greetings and \
            pushes, and no pulls.

            agenthub why pump-17 work_orders/wo-3
            """)

    @Argument(help: .device) var device: DeviceID
    @Argument(help: ArgumentHelp("The record, such as work_orders/wo-3.", valueName: "entity/id")) var record: RecordName
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let inspector = try folder.inspector()
        // Where the database has the tokens, they are read in its snapshot.
        let tokens = folder.database == nil ? try folder.readTokens() : nil
        let answer: DeliveryAnswer
        do throws(HubError) {
            answer = DeliveryAnswer(
                try inspector.deliveryFacts(
                    of: record, to: device, tokens: tokens, reader: EntitiesFile.reader, at: SystemClocks().now().wall))
        } catch {
            throw Failure(error)
        }
        try Say.result(json ? answer.json.json : answer.lines.joined(separator: "\n"))
        if answer.namesAreUnknown { throw ExitCode(66) }
    }
}

extension RecordName: ExpressibleByArgument {
    init?(argument: String) {
        let parts = argument.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let entity = EntityName(parts[0]), let id = RecordID(parts[1]) else { return nil }
        self.init(entity, id)
    }
}
