package import SyncCore

/// Records to publish, as lines of JSON: `{"id":"…","data":{…}}`. Without data, or with null, the record is deleted. Empty lines are
/// skipped. Lines become values slice by slice, so that a large set needs little more memory than its text.
package struct PublishedLines: Sendable {
    package let bytes: [UInt8]
    /// The number of the first line in its file, from 1.
    package let firstLine: Int

    /// Largest line, bytes: a document of ``SyncCore/Limits/documentBytes``, all of it escaped.
    package static let lineBytesMax = 2 << 20
    /// Limits of the records that are in memory at one time, and of a transaction that need not be larger.
    package static let recordsAtOnce = 1_000
    package static let bytesAtOnce = 4 << 20

    package init(_ bytes: [UInt8], firstLine: Int = 1) {
        self.bytes = bytes
        self.firstLine = firstLine
    }

    /// A line that has a record.
    package struct Line: Sendable {
        /// Its number in the file, from 1.
        package var number: Int
        package var id: RecordID
        /// The complete document; `nil` deletes the record.
        package var data: JSONObject?
    }

    /// A line that is not what it should be.
    package struct Fault: Error, Sendable, Hashable {
        package var line: Int
        package var detail: String
    }

    /// Reads the bytes of one line without its end.
    ///
    /// - Returns: `nil` for an empty one.
    package static func read(_ bytes: ArraySlice<UInt8>, number: Int) throws(Fault) -> Line? {
        guard bytes.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return nil }
        guard bytes.count <= lineBytesMax else {
            throw Fault(line: number, detail: "the line has \(bytes.count) bytes, the limit is \(lineBytesMax)")
        }
        let json: JSON
        do throws(JSONError) {
            json = try JSONReader.read(Array(bytes), limits: .message)
        } catch {
            throw Fault(line: number, detail: "\(error); a line is {\"id\":\"…\",\"data\":{…}}")
        }
        let object = json.object ?? [:]
        guard let id = object["id"]?.text.flatMap({ RecordID($0) }) else {
            throw Fault(
                line: number, detail: "expected {\"id\":\"…\",\"data\":{…}} with an id of 1 to 64 characters out of A-Z a-z 0-9 . _ : -")
        }
        let data = object["data"] ?? .null
        guard data.isNull || data.object != nil else { throw Fault(line: number, detail: "data must be an object or null") }
        return Line(number: number, id: id, data: data.object)
    }

    /// Looks at every line, slice by slice.
    ///
    /// - Throws: The first fault in the form of a line.
    package func check() throws(Fault) {
        var place = start
        while try !next(from: &place).isEmpty {}
    }

    /// A place between two lines.
    struct Place {
        fileprivate var offset = 0
        fileprivate var line: Int
    }

    var start: Place { Place(line: firstLine) }

    /// The next records, at most ``recordsAtOnce`` and, beyond the first, ``bytesAtOnce``; none at the end.
    func next(from place: inout Place) throws(Fault) -> [Line] {
        var found: [Line] = []
        let begin = place.offset
        while place.offset < bytes.count, found.count < Self.recordsAtOnce {
            let end = bytes[place.offset...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
            if !found.isEmpty, end - begin > Self.bytesAtOnce { break }
            if let line = try Self.read(bytes[place.offset..<end], number: place.line) { found.append(line) }
            (place.offset, place.line) = (end + 1, place.line + 1)
        }
        return found
    }
}
