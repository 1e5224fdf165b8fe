import ArgumentParser
import HubServer
import SyncCore
import SyncLinux

/// `agenthub publish ENTITY FILE`: publishes data of a back office, such as forms and catalogues, also while hubs run.
struct PublishCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish records of an entity, such as forms, also while the hub runs. Devices get them with their next sync.",
        discussion: """
            Each line is {"id":"…","data":{…}}. Without data, or with null, the record is deleted. All lines are read before the first one \
            is published, so a mistake in their form publishes nothing.

            The records go into the database in transactions of up to 1,000 records or 4 MiB. If one fails, the message names the line, \
            and the lines that are published. With --atomic the whole file, of at most 128 MiB, is one transaction: all of it or \
            nothing. Devices that change something meanwhile wait for its end.

            Beside a running hub the command uses hub.sock in the folder of --data, which is for root and the hub's own user.
            """)

    @Argument(help: .entity) var entity: EntityName
    @Argument(help: "NDJSON file.") var file: String
    @OptionGroup var folder: DataFolder
    @Flag(help: "Publish the whole file in one transaction, or nothing of it.") var atomic = false

    private static let atomicBytesMax = 128 << 20

    func run() throws {
        let source = try PublishFile(file)
        // A mistake in an atomic set leaves nothing behind anyway.
        if !atomic { try check(source) }
        do {
            let hub = try HubAtHand(folder)
            defer { hub.close() }
            let published = try publish(source, with: hub)
            try Say.result("\(PlainText.count(published.records, "record")) of \(entity)")
            if published.unshared > 0 {
                let (have, them) = published.unshared == 1 ? ("has", "it") : ("have", "them")
                Say.error(
                    "\(PlainText.count(published.unshared, "record")) \(have) no value in the scope fields of \(entity), so no device "
                        + "receives \(them). To see the settings: agenthub entities history")
            }
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    private func check(_ source: PublishFile) throws(Failure) {
        while let piece = try source.next() {
            do throws(PublishedLines.Fault) {
                try PublishedLines(piece.bytes, firstLine: piece.firstLine).check()
            } catch {
                throw Failure(65, "\(file):\(error.line): \(error.detail). Nothing is published")
            }
        }
        try source.rewind()
    }

    private func publish(_ source: PublishFile, with hub: HubAtHand) throws(Failure) -> PublishProgress {
        var done = PublishProgress()
        func publish(_ piece: PublishFile.Piece) throws(Failure) {
            do throws(HubAtHand.PublishFailure) {
                done.add(try hub.publish(piece.bytes, firstLine: piece.firstLine, to: entity), upTo: piece.lastLine)
            } catch {
                throw done.failure(error, in: piece, of: file)
            }
        }
        if atomic {
            try publish(try source.whole(atMost: Self.atomicBytesMax))
        } else {
            while let piece = try source.next() { try publish(piece) }
        }
        return done
    }
}

/// The part of a file that is published.
struct PublishProgress {
    private(set) var records = 0
    /// Records among them that no device receives.
    private(set) var unshared = 0
    private var lastLine = 0

    mutating func add(_ published: Hub.Published, upTo lastLine: Int) {
        records += published.count
        unshared += published.unshared
        self.lastLine = lastLine
    }

    /// The end of a publication, with the line and what is published nevertheless.
    func failure(_ failure: HubAtHand.PublishFailure, in piece: PublishFile.Piece, of file: String) -> Failure {
        let place = failure.line.map { "\(file):\($0): " } ?? ""
        let published =
            lastLine == 0
            ? "Nothing is published"
            : "The lines 1 to \(lastLine) are published (\(PlainText.count(records, "record"))), and none of the later ones"
        guard failure.isCertain else {
            let before = lastLine == 0 ? "" : "the lines 1 to \(lastLine) are published (\(PlainText.count(records, "record"))); "
            return Failure(
                failure.status,
                "\(place)\(failure.detail). It is not known whether the lines \(piece.firstLine) to \(piece.lastLine) are published; "
                    + "\(before)the later ones are not. Publish the file again: a record that is published twice is the same")
        }
        return Failure(failure.status, "\(place)\(failure.detail). \(published)")
    }
}
