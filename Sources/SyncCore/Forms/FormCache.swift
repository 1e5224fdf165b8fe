/// The forms that were read last, so that a form is not read anew for each record.
package struct FormCache: Sendable {
    /// Largest number of forms that are kept. A form of 100 questions takes some 100 KB of memory, and a millisecond to be read.
    package static let formsMax = 64

    /// The record of a form where it is stored.
    package struct Source {
        /// Differs whenever the document does.
        package var mark: String
        /// Reads the document; `nil`: it cannot be read.
        package var document: () -> JSONObject?

        package init(mark: String, document: @escaping () -> JSONObject?) {
            (self.mark, self.document) = (mark, document)
        }
    }

    /// The finding under the name of a form.
    package enum Found: Hashable, Sendable {
        case form(Form)
        /// There is no such form here, or none of that version.
        case absent
        /// There is one that cannot be read.
        case unusable(Problem)
    }

    private struct Kept: Sendable {
        var mark: String
        var path: String
        var version: String?
        var found: Found
    }

    private var kept: [RecordName: Kept] = [:]
    private let ablations: Ablations

    package init(ablations: Ablations = .none) {
        self.ablations = ablations
    }

    /// Finds the form that a record names (``FormSettings``).
    ///
    /// - Parameter source: Finds a record of the forms' entity; `nil`: there is none.
    package mutating func find<Failure>(
        _ name: FormSettings.Name, _ settings: FormSettings, _ source: (RecordName) throws(Failure) -> Source?
    ) throws(Failure) -> Found {
        let isOfNewest = ablations.contains(.formsByNewest)
        if !isOfNewest, let version = name.version, let id = RecordID(name.id + ":" + version) {
            let record = RecordName(settings.entity, id)
            if let source = try source(record) { return read(source, record, settings.path).found }
        }
        guard let id = RecordID(name.id) else { return .absent }
        let record = RecordName(settings.entity, id)
        guard let source = try source(record) else { return .absent }
        let read = read(source, record, settings.path)
        guard !isOfNewest, let wanted = name.version else {
            return isOfNewest || settings.version == nil || read.version == nil ? read.found : .absent
        }
        return sameBytes(read.version, wanted) ? read.found : .absent
    }

    private mutating func read(_ source: Source, _ record: RecordName, _ path: String) -> Kept {
        if let known = kept[record], sameBytes(known.mark, source.mark), sameBytes(known.path, path) { return known }
        if kept.count >= Self.formsMax { kept = [:] }
        let document = source.document()
        let fresh = Kept(
            mark: source.mark, path: path, version: document?["version"]?.idText,
            found: document.map { Form.found(in: $0, at: path) }
                ?? .unusable(Problem("validation", status: 422, detail: "the record \(record) cannot be read")))
        kept[record] = fresh
        return fresh
    }
}

extension Form {
    /// - Throws: `validation`, with pointers into the record of the form.
    init(in document: JSONObject, at path: String) throws(Problem) {
        let place = "/" + JSONPointer.escaped(path)
        guard let json = document[path] else { throw Self.misplaced(place, "there is no form in the member \(path)") }
        do throws(Problem) {
            self = try Form(json)
        } catch {
            let first = error.errors.first ?? Problem.Pointer("", error.detail)
            throw Self.misplaced(place + first.pointer, first.detail)
        }
    }

    private static func misplaced(_ pointer: String, _ detail: String) -> Problem {
        Problem("validation", status: 422, detail: "the form at \(pointer): \(detail)", errors: [Problem.Pointer(pointer, detail)])
    }

    fileprivate static func found(in document: JSONObject, at path: String) -> FormCache.Found {
        do throws(Problem) {
            return .form(try Form(in: document, at: path))
        } catch {
            return .unusable(error)
        }
    }
}

extension RuleBook {
    /// The fault of a record that is to be a form for other entities, with pointers into the record; `nil`: it is a form, or no entity has
    /// its forms there. A record that is marked as a form for several entities must be one for each.
    package func formFault(in document: JSONObject, of entity: EntityName) -> Problem? {
        let paths = Set(entities.values.compactMap { $0.form?.entity == entity ? $0.form?.path : nil })
        for path in paths.sorted(by: precedesInBytes) {
            do throws(Problem) {
                _ = try Form(in: document, at: path)
            } catch {
                return error
            }
        }
        return nil
    }
}
