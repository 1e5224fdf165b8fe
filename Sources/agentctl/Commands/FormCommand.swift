import ArgumentParser
import LocalAPI
import SyncCore

struct FormCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "form",
        abstract: "Check a form with sample answers, and show what a record still lacks by its form.",
        subcommands: [Progress.self, Check.self])

    struct Progress: AgentCommand {
        static let configuration = CommandConfiguration(
            commandName: "progress",
            abstract: "Show how far a record is: questions, answers, and what is missing, by section.",
            discussion: """
                The command reads locally and does not wait for the network. Exit status 1: something is missing, or no form could \
                judge the record.

                agentctl form progress audits a-17
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: .entity) var entity: EntityName
        @Argument(help: "The record's id.") var id: RecordID

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.progress(RecordName(entity, id))
            session.show(reply) { ProgressScreen.render($0, width: $1.width) }
            return reply.value.state == "judged" && reply.value.isComplete ? 0 : 1
        }
    }

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Check a form before it is published, and try it with sample answers.",
            discussion: """
                The form is a JSON object with sections, as it stands in the form's record. The answers are a JSON object, as a record \
                has them. The command needs no agent. Exit status 1: the form cannot be used, an answer is wrong, or something is \
                missing.

                agentctl form check doors.json
                agentctl form check doors.json --answers sample.json
                """)

        @Flag(help: "Print the result as JSON.") var json = false
        @Argument(help: "The file with the form, or - for standard input.") var file: String
        @Option(help: ArgumentHelp("The file with the answers, or - for standard input.", valueName: "file")) var answers: String?

        func validate() throws {
            if file == "-", answers == "-" { throw ValidationError("Standard input can be the form or the answers, not both.") }
        }

        func run() throws {
            let status: Int32
            do {
                status = try check()
            } catch {
                Output.report(error, asJSON: json)
                throw ExitCode(error.exitStatus)
            }
            if status != 0 { throw ExitCode(status) }
        }

        private func check() throws(CommandFailure) -> Int32 {
            let form = try Self.form(file)
            guard let answers else {
                let count = form.questionCount
                if json {
                    Output.line((["valid": true, "questions": .int(count)] as JSON).json)
                } else {
                    Output.line("the form is right: \(count) question\(count == 1 ? "" : "s")")
                }
                return 0
            }
            guard let record = try Self.read(answers).object else {
                throw CommandFailure.failed("malformed", "\(answers): expected a JSON object with answers")
            }
            let progress = form.progress(of: record)
            if json {
                Output.line(JSON.object(progress.json).json)
            } else {
                for line in ProgressScreen.render(progress, width: View().width) { Output.line(line) }
            }
            return progress.isComplete && progress.faults.isEmpty ? 0 : 1
        }

        private static func form(_ file: String) throws(CommandFailure) -> Form {
            let json = try read(file)
            do throws(Problem) {
                return try Form(json)
            } catch {
                throw CommandFailure(exitStatus: 1, problem: error)
            }
        }

        private static func read(_ file: String) throws(CommandFailure) -> JSON {
            let bytes = try InputFile.contents(of: file, max: Limits.localBodyBytes)
            do throws(JSONError) {
                return try JSONReader.read(bytes)
            } catch {
                throw CommandFailure.failed("malformed", "\(file) is not valid JSON at \(error)")
            }
        }
    }
}
