import ArgumentParser
import LocalAPI
import SyncCore

struct EnqueueCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Queue a change to a record.",
        discussion:
            """
            The command returns when the change is on flash. With --wait it returns when the hub has decided. Exit status 1: the \
            hub has rejected the change, or has not answered in time.

            agentctl enqueue work_orders wo-1 --data '{"status":"done"}' --wait
            agentctl enqueue readings --action create --data '{"celsius":71.5}'
            """
    )

    @OptionGroup var global: GlobalOptions
    @Argument(help: .entity) var entity: EntityName
    @Argument(help: "The record's id: 1 to 64 characters out of A-Z a-z 0-9 . _ : -. Without it the agent makes one (create only).")
    var id: RecordID?
    @Option(help: "create, update, upsert or delete. Default: upsert with an id, create without.")
    var action: NewMutation.Action?
    @Option(help: ArgumentHelp("The fields: a JSON object, @FILE, or - for standard input.", valueName: "json|@file|-"))
    var data: String?
    @Option(help: "critical, normal or bulk. Default: the entity's.") var priority: Priority?
    @Option(help: "Drop the change if it is still unsent after this time, such as 2h or 14d.") var ttl: DurationArgument?
    @Option(help: ArgumentHelp("Wait until the hub has accepted this change; may be repeated.", valueName: "id"))
    var dependsOn: [MutationKey] = []
    @Option(help: ArgumentHelp("Change the record only if it still has this etag, which `agentctl get` shows.", valueName: "etag"))
    var ifMatch: String?
    @Option(help: "Name of the author, shown to people.") var author: String?
    @Option(help: "Idempotency key. The same change with the same key is accepted once.") var key: String?
    @Flag(help: "Wait for the hub's verdict.") var wait = false
    @Option(help: "Longest wait of --wait, such as 90s; at most 5m. Default: 20s.") var timeout: DurationArgument?

    func validate() throws {
        if timeout != nil, !wait { throw ValidationError("--timeout needs --wait.") }
        if id == nil, action ?? .create != .create {
            throw ValidationError("--action \(action?.rawValue ?? "") needs the record's id.")
        }
        if data == nil, action != .delete {
            throw ValidationError("--data with the fields of the record is missing. For a record without fields: --data '{}'.")
        }
        if let ifMatch {
            guard EntityTags(ifMatch) != nil else { throw ValidationError("--if-match: it " + EntityTags.rule + ".") }
            guard id != nil, action != .create else {
                throw ValidationError("--if-match needs an existing record: give its id, and another action than create.")
            }
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
            if reply.status == 200, !wait { Output.note("this key was used before. This is the first answer") }
            for warning in answer.warnings {
                let fault = "\(warning.pointer) \(warning.detail)"
                Output.note(PlainText.safe("warning: \(fault). The change was accepted nevertheless (validate: warn)"))
            }
            switch answer.form {
            case nil: break
            case .absent: Output.note("its form is not on this device, so the hub will judge the change")
            case .unusable: Output.note("its form cannot be read (agentctl form progress tells why), so nothing was judged")
            }
            for member in answer.kept.members {
                Output.note(PlainText.safe("\(member.name.text) stays \(member.value.json): its rule (max or min) keeps the present value"))
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
            guard let object = try BodyText.json(bytes, named: "--data").object else {
                throw LocalProblem.malformed.problem("--data must be a JSON object, such as {\"status\":\"done\"}")
            }
            return object
        } catch {
            throw CommandFailure(exitStatus: 64, problem: error)
        }
    }
}
