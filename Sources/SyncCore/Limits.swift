/// Every limit of the product in one place, each with its reason. Configuration may lower most of them, never raise a hard cap.
package enum Limits {
    /// One mutation as JSON. Larger content is a file and belongs into a blob.
    package static let mutationBytes = 128 << 10
    /// A record after folding; twice a mutation, so that a create at the limit can still be updated.
    package static let documentBytes = 256 << 10
    /// Nested arrays and objects: deep enough for forms, far from any stack.
    package static let jsonDepth = 32
    /// Depth at which a stored document or an answer is taken for damage: earlier versions let operations build documents two
    /// levels deeper than ``jsonDepth``.
    package static let storedDepth = 4 * jsonDepth
    /// The name of a field or a member as JSON text, escapes included: peers refuse what has longer ones.
    package static let nameBytes = 256
    /// Fields of a document. Each field that was changed on its own has a stamp at the hub, and in a conflict two values with
    /// their authors, so a record costs some 300 bytes a field beside its content; forms have a few hundred fields.
    package static let documentFields = 2_048
    /// Members of one object of a message: more than a document of ``documentBytes`` has room for.
    package static let objectMembers = 65_536
    /// Memory that one message may take once it is read: a page of ``pullBytes`` needs up to 34 times its bytes when it is all
    /// tiny objects, and an ordinary answer of ``hubResponseBytes`` four times.
    package static let messageMemoryBytes = 64 << 20
    /// Levels that messages put around a document, with room for newer ones; a pull puts 5.
    package static let messageDepth = 8
    /// The name of who wrote a mutation, in the app's words.
    package static let authorBytes = 256
    /// Mutations of one atomic list, and of the first batch of a push: one hub transaction each.
    package static let atomicMutations = 50
    package static let batchMutations = 50
    /// Mutations that wait one behind the other, by `depends_on` or as parents and children. Whatever ends the first of them
    /// reaches all of them in one transaction; no form and no procedure of a working day comes near.
    package static let chainLinks = 1_000
    /// A batch grows to this while answers stay quick.
    package static let batchMutationsMax = 500
    package static let batchBytes = 256 << 10
    package static let batchBytesMax = 1 << 20
    package static let batchBytesMetered = 64 << 10
    /// Largest push that the hub reads, after inflating.
    package static let hubRequestBytes = 4 << 20
    /// Largest answer of the hub that the agent reads, after inflating.
    package static let hubResponseBytes = 16 << 20
    /// Bytes of records in the hub's answer to a push, after which it looks at no further mutation: half of what the agent reads,
    /// so that one more atomic list has room.
    package static let hubAnswerBytes = 8 << 20
    /// Bytes of records in the hub's answer to a push, after which it shows a record to known keys once and not with each.
    package static let hubRepeatedBytes = 1 << 20
    package static let inflateRatio = 1000
    /// Requests under way at an existing backend, about records that have nothing to do with each other.
    package static let restParallel = 2
    package static let pullRecords = 500
    package static let pullRecordsMax = 1000
    package static let pullBytes = 1 << 20
    /// Records of one page of a listing: as many as the hub gives, since a listing is long, or what it said it would give.
    package static func listedRecords(announced: Int) -> Int { announced >= pullRecords ? pullRecordsMax : announced }
    /// Pages of one cycle: one entity with a huge backlog must not keep local changes waiting for ever.
    package static let pullPagesPerCycle = 20
    package static let cycleBudget: Duration = .seconds(25)
    package static let cursorBytes = 512
    /// Request bodies above this are gzipped; below it gzip rarely saves a packet.
    package static let compressOver = 10_240
    /// Body of an ordinary request to the local API.
    package static let localBodyBytes = 1 << 20
    /// One line of a bulk enqueue: a mutation.
    package static let lineBytes = 128 << 10
    /// Rows and bytes of one group commit.
    package static let groupRows = 256
    package static let groupBytes = 1 << 20
    /// Answered failures of a mutation that fails alone before it is parked.
    package static let attempts = 10
}
