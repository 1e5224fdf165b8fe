import CYAML

/// The event parser of libyaml, without its pointers. Events come in the order of the file.
struct YAMLEvents: ~Copyable {
    struct Event {
        enum Kind {
            case streamStart, streamEnd
            case documentStart(hasDirectives: Bool), documentEnd
            case alias
            case scalar(String, isPlain: Bool)
            case sequenceStart, sequenceEnd
            case mappingStart, mappingEnd
        }

        var kind: Kind
        var position: YAMLPosition
        var hasAnchor = false
        var hasTag = false
    }

    private let file: String
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    /// libyaml keeps a pointer into its input, so the input must live as long as the parser.
    private let input: UnsafeMutableBufferPointer<UInt8>

    /// - Parameter bytes: Valid UTF-8 without a byte order mark.
    init(_ bytes: some Collection<UInt8>, file: String) {
        self.file = file
        parser = .allocate(capacity: 1)
        input = .allocate(capacity: bytes.count)
        _ = input.initialize(from: bytes)
        // It fails only without memory, and Swift stops the process then as well.
        precondition(yaml_parser_initialize(parser) == 1)
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, UnsafePointer(input.baseAddress), input.count)
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
        input.deallocate()
    }

    /// - Throws: A syntax error. After it, or after the end of the stream, this must not be called again.
    mutating func next() throws(ConfigurationError) -> Event {
        var raw = yaml_event_t()
        guard yaml_parser_parse(parser, &raw) == 1 else { throw syntaxError() }
        defer { yaml_event_delete(&raw) }
        var event = Event(kind: .streamEnd, position: position(raw.start_mark))
        switch raw.type {
        case YAML_STREAM_START_EVENT: event.kind = .streamStart
        case YAML_DOCUMENT_START_EVENT:
            let start = raw.data.document_start
            let hasDirectives = start.version_directive != nil || start.tag_directives.start != start.tag_directives.end
            event.kind = .documentStart(hasDirectives: hasDirectives)
        case YAML_DOCUMENT_END_EVENT: event.kind = .documentEnd
        case YAML_ALIAS_EVENT: event.kind = .alias
        case YAML_SCALAR_EVENT:
            let scalar = raw.data.scalar
            let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            event.kind = .scalar(
                String(decoding: bytes, as: UTF8.self), isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE)
            event.hasAnchor = scalar.anchor != nil
            event.hasTag = scalar.tag != nil
        case YAML_SEQUENCE_START_EVENT:
            event.kind = .sequenceStart
            event.hasAnchor = raw.data.sequence_start.anchor != nil
            event.hasTag = raw.data.sequence_start.tag != nil
        case YAML_SEQUENCE_END_EVENT: event.kind = .sequenceEnd
        case YAML_MAPPING_START_EVENT:
            event.kind = .mappingStart
            event.hasAnchor = raw.data.mapping_start.anchor != nil
            event.hasTag = raw.data.mapping_start.tag != nil
        case YAML_MAPPING_END_EVENT: event.kind = .mappingEnd
        default: event.kind = .streamEnd
        }
        return event
    }

    private func position(_ mark: yaml_mark_t) -> YAMLPosition {
        YAMLPosition(file: file, line: Int(clamping: mark.line) + 1, column: Int(clamping: mark.column) + 1)
    }

    /// The place and reason of libyaml's failure.
    private func syntaxError() -> ConfigurationError {
        let state = parser.pointee
        let place = position(state.problem_mark)
        var problem = state.problem.map { String(cString: $0) } ?? "unknown reason"
        if let context = state.context.map({ String(cString: $0) }) {
            problem += " " + context
            if state.context_mark.line != state.problem_mark.line {
                problem += " that starts in line \(state.context_mark.line + 1)"
            }
        }
        if isTab(at: Int(clamping: state.problem_mark.index)) { problem += "; indent with spaces, not with tabs" }
        return ConfigurationError(at: place, problem: "not valid YAML: " + printable(problem))
    }

    /// Detects a tab in the indentation: libyaml's words for it ("found character that cannot start any token") do not help.
    private func isTab(at offset: Int) -> Bool {
        let text = String(decoding: input, as: UTF8.self).unicodeScalars
        guard let index = text.index(text.startIndex, offsetBy: offset, limitedBy: text.endIndex), index < text.endIndex
        else { return false }
        return text[index] == "\t"
    }
}
