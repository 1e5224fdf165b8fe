package import SyncCore

extension Problem {
    /// Writes the short form for items, events and the status: `{"code","detail","errors"}`. It does not say whether the code is the hub's
    /// or the agent's own.
    package func writeNote(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("code", code)
            writer.member("detail", detail)
            if !errors.isEmpty {
                writer.elements("errors", errors) { writer, error in
                    writer.object { writer in
                        writer.member("pointer", error.pointer)
                        writer.member("detail", error.detail)
                    }
                }
            }
        }
    }

    package init?(note json: JSON?) {
        guard let object = json?.object, let code = object["code"]?.text else { return nil }
        self.init(
            code, status: 0, detail: object["detail"]?.text ?? "",
            errors: (object["errors"]?.array ?? []).map {
                Pointer($0.object?["pointer"]?.text ?? "", $0.object?["detail"]?.text ?? "")
            })
    }
}
