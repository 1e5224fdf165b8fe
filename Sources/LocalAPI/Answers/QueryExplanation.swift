package import SyncCore

/// Answer to a query with `explain`: its access path and cost instead of records.
package struct QueryExplanation: Hashable, Sendable {
    package enum Way: String, Sendable {
        /// The records in the order of their ids, until enough had matched.
        case id
        /// A declared index.
        case index
        /// The records with open mutations.
        case openMutations = "open_mutations"
        /// Every record of the entity.
        case scan
    }

    /// A declared index and the progress of its build.
    package struct Index: Hashable, Sendable {
        /// Columns as in the configuration: `site,due`.
        package var name: String
        /// Progress, percent; at 100 the index is complete and used.
        package var percent: Int

        package init(name: String, percent: Int) {
            self.name = name
            self.percent = percent
        }
    }

    package var entity: String
    package var way: String
    package var index: String?
    /// The filter selected the part of the index that was read.
    package var isFiltered = false
    /// The index is in the order of the query.
    package var isOrdered = false
    /// Number of records that were read.
    package var read = 0
    /// The query exceeded the time limit of a read and was stopped.
    package var isCutOff = false
    /// Number of records of the page.
    package var found = 0
    /// Number of records of the entity.
    package var records: Int64 = 0
    package var indexes: [Index] = []
    /// Index to add to `entities.NAME.index` to make this query fast.
    package var suggestion: String?

    package init(_ entity: EntityName, _ way: Way, index: String? = nil) {
        self.entity = entity.text
        self.way = way.rawValue
        self.index = index
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.member("entity", entity)
                writer.member("way", way)
                writer.member("index", index)
                writer.member("filtered", isFiltered)
                writer.member("ordered", isOrdered)
                writer.member("read", Int64(read))
                writer.member("found", Int64(found))
                if isCutOff { writer.member("cut_off", true) }
                writer.member("records", records)
                writer.elements("indexes", indexes) { writer, index in
                    writer.object { writer in
                        writer.member("index", index.name)
                        writer.member("percent", Int64(index.percent))
                    }
                }
                writer.member("suggestion", suggestion)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard let entity = reader.text("entity"), let way = reader.text("way") else { return nil }
        self.entity = entity
        self.way = way
        index = reader.text("index")
        isFiltered = reader.bool("filtered") ?? false
        isOrdered = reader.bool("ordered") ?? false
        read = Int(clamping: reader.int("read") ?? 0)
        found = Int(clamping: reader.int("found") ?? 0)
        isCutOff = reader.bool("cut_off") ?? false
        records = reader.int("records") ?? 0
        indexes = reader.list("indexes").compactMap { json in
            let reader = AnswerReader(json)
            return reader.text("index").map { Index(name: $0, percent: Int(clamping: reader.int("percent") ?? 0)) }
        }
        suggestion = reader.text("suggestion")
    }

    /// Lines for a person: the access path, the existing indexes, and a useful one.
    package var lines: [String] {
        var lines = [done]
        if !indexes.isEmpty {
            lines.append(
                "Indexes of \(entity): "
                    + indexes.map { $0.name + ($0.percent == 100 ? "" : " (\($0.percent) % built)") }
                    .joined(separator: "; ") + ".")
        }
        if let suggestion {
            let all = (indexes.map(\.name) + [suggestion]).map { $0.contains(",") ? "\"\($0)\"" : $0 }
            lines.append("An index would make this query quick. Add to entities.\(entity) in the configuration:")
            lines.append("    index: [\(all.joined(separator: ", "))]")
            lines.append("Then run: agentctl config reload")
        }
        return lines
    }

    private var done: String {
        let cost =
            isCutOff
            ? "It had read \(read) of \(records) records when its time of 2 s ended, so that the query is refused."
            : "It read \(read) of \(records) records to find \(found)."
        switch Way(rawValue: way) {
        case .index:
            let parts = [isFiltered ? "keeps the matching records together" : nil, isOrdered ? "has the order of the query" : nil]
                .compactMap { $0 }
            return "The query uses the index \(index ?? ""). The index \(parts.joined(separator: " and ")). \(cost)"
        case .openMutations: return "The query looks only at records with open mutations. \(cost)"
        case .id: return "The query reads the records in the order of their ids. \(cost)"
        case .scan: return "The query uses no index and reads all records of \(entity). \(cost)"
        case nil: return "The query goes the way \(way), which this agentctl does not know. \(cost)"
        }
    }
}
