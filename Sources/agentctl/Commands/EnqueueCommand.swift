import ArgumentParser
import LocalAPI
import SyncCore

struct EnqueueCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Ask for one change of one record.",
        discussion:
            """
            It returns when the change is on flash; with --wait, when the hub has decided (exit 1 if it said no, or \
            nothing in time).

            agentctl enqueue work_orders wo-1 --data '{"status":"done"}' --wait
            agentctl enqueue readings --action create --data '{"celsius":71.5}'
            """
    )

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The entity.") var entity: EntityName
    @Argument(help: "The record's id. Without it the agent makes one (create only).") var id: RecordID?
    @Option(help: "create, update, upsert or delete. Default: upsert with an id, create without.")
    var action: NewMutation.Action?
    @Option(help: ArgumentHelp("The fields: a JSON object, @FILE, or - for standard input.", valueName: "json|@file|-"))
    var data: String?
    @Option(help: "critical, normal or bulk. Default: the entity's.") var priority: Priority?
    @Option(help: "Give up unsent after this time, such as 2h or 14d.") var ttl: DurationArgument?
    @Option(help: ArgumentHelp("Not before this change is at the hub; may be repeated.", valueName: "id"))
    var dependsOn: [MutationKey] = []
    @Option(help: ArgumentHelp("Only if the record is still as it was read: the etag that `agentctl get` shows.", valueName: "etag"))
    var ifMatch: String?
    @Option(help: "Who asks for it, for people to read.") var author: String?
    @Option(help: "Idempotency key: the same key with the same change is taken once.") var key: String?
    @Flag(help: "Wait for the hub's verdict.") var wait = false
    @Option(help: "How long --wait waits.") var timeout: DurationArgument?

    func validate() throws {
        if timeout != nil, !wait { throw ValidationError("--timeout goes with --wait.") }
        if id == nil, action ?? .create != .create {
            throw ValidationError("--action \(action?.rawValue ?? "") needs the record's id.")
        }
        if data == nil, action != .delete {
            throw ValidationError("--data says what the record shall hold; for one without fields: --data '{}'.")
        }
        if let ifMatch {
            guard EntityTags(ifMatch) != nil else { throw ValidationError("--if-match: it " + EntityTags.rule + ".") }
            guard id != nil, action != .create else { throw ValidationError("--if-match goes with a record that exists.") }
        }
    }

    func run(_ session: Session) async throws -> Int32 {
        let mutation = NewMutation(
            action ?? (id == nil ? .create : .upsert), entity, id, data: try document(), priority: priority,
            dependsOn: dependsOn, ttl: ttl?.duration, author: author, ifMatch: ifMatch.flatMap { EntityTags($0) })
        let patience = wait ? min(timeout?.duration ?? Route.waitDefault, Route.waitMax) : nil
        let reply = try await session.client.enqueue(mutation, key: key, wait: patience)
        let answer = reply.value
        if session.isJSON {
            Output.json(reply.body)
        } else {
            Output.line("\(answer.id) \(answer.state) \(answer.record?.description ?? "")")
            if reply.status == 200, !wait { Output.note("this key was used before; the answer is the first one") }
            for warning in answer.warnings {
                Output.note(PlainText.safe("warning: \(warning.pointer) \(warning.detail); it was taken all the same (validate: warn)"))
            }
            for member in answer.kept.members {
                Output.note(PlainText.safe("\(member.name.text) stays \(member.value.json): its rule (max or min) keeps what is there"))
            }
            if answer.durability == .relaxed { Output.note("on flash within a second (durability relaxed)") }
        }
        guard wait, !isSettled(answer.state) else { return 0 }
        await explain(answer, session)
        return 1
    }

    /// A mutation that is not settled is not lost: says so, with the reason of the wait.
    private func explain(_ answer: EnqueueAnswer, _ session: Session) async {
        // If the agent gives no reason, the sentence has none; the change itself is accepted.
        let why = try? await session.client.why(answer.id).value
        let view = View()
        Output.note("agentctl: " + WaitNote.enqueued(answer, why: why, now: view.now, offset: view.offset))
    }

    private func isSettled(_ state: String) -> Bool {
        switch MutationState(name: state) {
        case .done?, .coalesced?, .superseded?, .resolved?: true
        default: false
        }
    }

    private func document() throws(CommandFailure) -> JSONObject {
        guard let data else { return [:] }
        let bytes: [UInt8]
        if data == "-" || data.hasPrefix("@") {
            bytes = try InputFile.contents(of: data == "-" ? "-" : String(data.dropFirst()), max: Limits.localBodyBytes)
        } else {
            bytes = Array(data.utf8)
        }
        do throws(Problem) {
            guard let object = try BodyText.json(bytes).object else {
                throw LocalProblem.malformed.problem("--data must be a JSON object")
            }
            return object
        } catch {
            throw CommandFailure(exitStatus: 64, problem: error)
        }
    }
}
