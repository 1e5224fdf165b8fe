package import SyncCore

/// The treatment of each document of an imported file.
package struct ImportPlan: Hashable, Sendable {
    package enum Format: String, Sendable, CaseIterable {
        /// A header and rows. Each row becomes an object with the columns as members.
        case csv
        /// One JSON object a line.
        case ndjson
    }

    package var entity: EntityName
    package var format: Format
    package var action: NewMutation.Action
    /// The column or member whose value is the record's id. Without it, and without ``idPrefix``, the agent makes ids.
    package var idColumn: String?
    /// Text before the value of ``idColumn``, or before the number of the document in the file.
    package var idPrefix: String?
    /// Text before the number of the line, together the key of the line: an interrupted import can be run again from its start.
    package var keyPrefix: String?
    package var priority: Priority?
    package var ttl: Duration?

    package init(
        _ entity: EntityName, _ format: Format, action: NewMutation.Action = .create, idColumn: String? = nil,
        idPrefix: String? = nil, keyPrefix: String? = nil, priority: Priority? = nil, ttl: Duration? = nil
    ) {
        self.entity = entity
        self.format = format
        self.action = action
        self.idColumn = idColumn
        self.idPrefix = idPrefix
        self.keyPrefix = keyPrefix
        self.priority = priority
        self.ttl = ttl
    }
}

/// A line of the file that did not become a mutation.
package struct ImportFailure: Hashable, Sendable {
    /// Number of the line in the file, from 1.
    package var line: Int64
    package var problem: Problem
}

/// Turns the bytes of a file into lines of a bulk enqueue, piece by piece; neither is ever held completely in memory.
package struct ImportEncoder: Sendable {
    package let plan: ImportPlan
    /// The fault of the header, which makes the whole file unusable. Reading ends there.
    package private(set) var headerFault: Problem?

    /// Largest number of columns. Wider tables are no records, and the time for a row grows quadratically.
    private static let columnsMax = 1_000

    private var rows = CSVReader(rowBytesMax: Limits.lineBytes)
    private var lines = LineSplitter(bytesMax: Limits.lineBytes)
    private var columns: [String]?
    private var documents: Int64 = 0

    package init(_ plan: ImportPlan) {
        self.plan = plan
    }

    /// - Returns: NDJSON for the agent, and the lines that could not be converted.
    package mutating func read(_ bytes: [UInt8]) -> (lines: [UInt8], failures: [ImportFailure]) {
        switch plan.format {
        case .csv: convert(rows.read(bytes))
        case .ndjson: convert(lines.read(bytes))
        }
    }

    package mutating func finish() -> (lines: [UInt8], failures: [ImportFailure]) {
        switch plan.format {
        case .csv:
            let rest = convert(rows.finish())
            if columns == nil, headerFault == nil { headerFault = ImportEncoder.fault("the file has no header") }
            return rest
        case .ndjson: return convert(lines.finish())
        }
    }

    private mutating func convert(_ rows: [CSVReader.Row]) -> (lines: [UInt8], failures: [ImportFailure]) {
        var output: [UInt8] = []
        var failures: [ImportFailure] = []
        for row in rows where headerFault == nil {
            switch row {
            case .fault(let line, let reason):
                if columns == nil { headerFault = ImportEncoder.fault("the header cannot be read: " + reason) }
                documents += columns == nil ? 0 : 1
                failures.append(ImportFailure(line: line, problem: ImportEncoder.fault(reason)))
            case .fields(let line, let fields):
                guard let columns else {
                    readHeader(fields)
                    continue
                }
                documents += 1
                do throws(Problem) {
                    output += try encode(line: line, try ImportEncoder.document(columns, fields))
                } catch {
                    failures.append(ImportFailure(line: line, problem: error))
                }
            }
        }
        return (output, failures)
    }

    private mutating func convert(_ lines: [LineSplitter.Line]) -> (lines: [UInt8], failures: [ImportFailure]) {
        var output: [UInt8] = []
        var failures: [ImportFailure] = []
        for line in lines {
            documents += 1
            do throws(Problem) {
                guard let bytes = line.bytes else { throw BulkLine.tooLong }
                let json = try BodyText.json(bytes, named: "the line")
                guard let document = json.object else { throw MutationBody.notAnObject(json, at: "") }
                output += try encode(line: line.number, document)
            } catch {
                failures.append(ImportFailure(line: line.number, problem: error))
            }
        }
        return (output, failures)
    }

    private mutating func readHeader(_ fields: [CSVReader.Field]) {
        guard fields.count <= ImportEncoder.columnsMax else {
            headerFault = ImportEncoder.fault("there are more than \(ImportEncoder.columnsMax) columns")
            return
        }
        var names: [String] = []
        for field in fields {
            guard let name = String(validating: field.bytes, as: UTF8.self), (1...256).contains(name.utf8.count) else {
                headerFault = ImportEncoder.fault("a column has no name, or one that is not UTF-8 of 1 to 256 bytes")
                return
            }
            guard !names.contains(where: { $0.utf8.elementsEqual(name.utf8) }) else {
                headerFault = ImportEncoder.fault("two columns are named \(name)")
                return
            }
            names.append(name)
        }
        if let idColumn = plan.idColumn, !names.contains(idColumn) {
            let near = nearestName(to: idColumn, among: names).map { "; did you mean \($0)?" } ?? ""
            headerFault = ImportEncoder.fault("there is no column \(idColumn)" + near)
        }
        columns = names
    }

    private func encode(line: Int64, _ document: JSONObject) throws(Problem) -> [UInt8] {
        let mutation = NewMutation(
            plan.action, plan.entity, try recordID(document), data: document, priority: plan.priority, ttl: plan.ttl)
        let bytes = BulkLine.bytes(mutation, ref: .int(line), key: plan.keyPrefix.map { $0 + String(line) })
        guard bytes.count <= Limits.lineBytes else { throw BulkLine.tooLong }
        return bytes
    }

    private func recordID(_ document: JSONObject) throws(Problem) -> RecordID? {
        var text = plan.idPrefix
        if let column = plan.idColumn {
            switch document[column] {
            case .string(let value)?: text = (text ?? "") + value.text
            case .number(let value)?: text = (text ?? "") + value.source
            default: throw ImportEncoder.fault("\(column) holds no text or number to make an id of")
            }
        } else if text != nil {
            text = (text ?? "") + String(documents)
        }
        guard let text else { return nil }
        guard let id = RecordID(text) else { throw ImportEncoder.fault("the record id " + RouteParser.identifierRule) }
        return id
    }

    private static func document(_ columns: [String], _ fields: [CSVReader.Field]) throws(Problem) -> JSONObject {
        guard columns.count == fields.count else {
            throw fault("the row has \(PlainText.count(fields.count, "field")), the header \(columns.count)")
        }
        var document: JSONObject = [:]
        for (name, field) in zip(columns, fields) { document[name] = try value(field) }
        return document
    }

    /// The JSON value of a field. A number by the grammar of JSON becomes that number, digit for digit; quotes make it text.
    private static func value(_ field: CSVReader.Field) throws(Problem) -> JSON {
        // A number ends with a digit; the reader alone would also accept white space around it.
        if !field.isQuoted, let first = field.bytes.first, first == UInt8(ascii: "-") || isDigit(first),
            let last = field.bytes.last, isDigit(last),
            // A field that is not JSON is text, which is no failure.
            case .number(let number)? = try? JSONReader.read(field.bytes)
        {
            return .number(number)
        }
        guard let text = String(validating: field.bytes, as: UTF8.self) else { throw fault("a field is not UTF-8") }
        guard !text.utf8.contains(0) else { throw fault("a field holds a NUL") }
        return .string(text)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 48 && byte <= 57 }

    private static func fault(_ detail: String) -> Problem {
        LocalProblem.malformed.problem(detail)
    }
}
