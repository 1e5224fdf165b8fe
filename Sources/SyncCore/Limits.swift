/// All limits of the product in one place, each with its reason. Configuration may lower most of them, but never raise a hard limit.
package enum Limits {
    /// Largest mutation as JSON, bytes. Larger content belongs into a file.
    package static let mutationBytes = 128 << 10
    /// Largest record after folding, bytes: twice a mutation, so that a create at the limit can still be updated.
    package static let documentBytes = 256 << 10
    /// Largest nesting of arrays and objects: deep enough for forms, and harmless for every stack.
    package static let jsonDepth = 32
    /// Depth beyond which a stored document or an answer counts as damaged. Earlier versions let operations build documents two levels
    /// deeper than ``jsonDepth``.
    package static let storedDepth = 4 * jsonDepth
    /// Largest name of a field or a member as JSON text, bytes, escapes included: peers refuse longer ones.
    package static let nameBytes = 256
    /// Largest number of fields of a document. Each field that was changed separately has a stamp at the hub, and in a conflict two values
    /// with their authors. So a record costs some 300 bytes a field besides its content; forms have a few hundred fields.
    package static let documentFields = 2_048
    /// Largest number of members of one object in a message: more than a document of ``documentBytes`` can contain.
    package static let objectMembers = 65_536
    /// Largest memory of a message after reading, bytes. A page of ``pullBytes`` needs up to 34 times its size when it consists of tiny
    /// objects, and an ordinary answer of ``hubResponseBytes`` four times.
    package static let messageMemoryBytes = 64 << 20
    /// Levels that messages put around a document, with room for newer ones; a pull uses 5.
    package static let messageDepth = 8
    /// Largest name of an author, in the app's words, bytes.
    package static let authorBytes = 256
    /// Largest number of mutations in an atomic list, and in the first batch of a push: one hub transaction each.
    package static let atomicMutations = 50
    package static let batchMutations = 50
    /// Longest chain of mutations that wait for each other, by `depends_on` or as parents and children. The end of the first one affects
    /// all of them in one transaction; no form and no procedure of a working day comes near this.
    package static let chainLinks = 1_000
    /// Size up to which a batch grows while answers stay quick.
    package static let batchMutationsMax = 500
    package static let batchBytes = 256 << 10
    package static let batchBytesMax = 1 << 20
    package static let batchBytesMetered = 64 << 10
    /// Largest push that the hub reads, bytes after decompression.
    package static let hubRequestBytes = 4 << 20
    /// Largest answer of the hub that the agent reads, bytes after decompression.
    package static let hubResponseBytes = 16 << 20
    /// Bytes of records in the hub's answer to a push, after which it processes no further mutation: half of what the agent reads, so that
    /// one more atomic list fits.
    package static let hubAnswerBytes = 8 << 20
    /// Bytes of records in the hub's answer to a push, after which it shows a record once for all known keys and not with each.
    package static let hubRepeatedBytes = 1 << 20
    /// Largest number of scopes, and of texts in scopes and roles, that are kept of a hello, and the largest of them, bytes. A device with
    /// more sees the first ones in its status; what it receives does not depend on them.
    package static let shareScopes = 32
    package static let shareTexts = 256
    package static let shareTextBytes = 128
    package static let inflateRatio = 1000
    /// Number of parallel requests to an existing backend, for independent records.
    package static let restParallel = 2
    package static let pullRecords = 500
    package static let pullRecordsMax = 1000
    package static let pullBytes = 1 << 20
    /// Number of records in one page of a listing: the hub's maximum, since a listing is long, or the number that the hub announced.
    package static func listedRecords(announced: Int) -> Int { announced >= pullRecords ? pullRecordsMax : announced }
    /// Largest number of pages in a cycle: an entity with a huge backlog must not delay local changes for ever.
    package static let pullPagesPerCycle = 20
    package static let cycleBudget: Duration = .seconds(25)
    package static let cursorBytes = 512
    /// Size above which request bodies are compressed, bytes; below it gzip rarely saves a packet.
    package static let compressOver = 10_240
    /// Largest body of an ordinary request to the local API, bytes.
    package static let localBodyBytes = 1 << 20
    /// Largest line of a bulk enqueue, which is one mutation, bytes.
    package static let lineBytes = 128 << 10
    /// Largest number of rows and bytes of one group commit.
    package static let groupRows = 256
    package static let groupBytes = 1 << 20
    /// Number of answered failures after which a mutation that fails alone is parked.
    package static let attempts = 10
}
