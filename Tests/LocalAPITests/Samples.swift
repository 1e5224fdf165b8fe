import LocalAPI
import SyncCore

/// A path of the document, for examples that are known to be valid.
func path(_ names: String...) -> FieldPath {
    guard let path = FieldPath(names) else { preconditionFailure("\(names) is no path") }
    return path
}

/// JSON with its numbers digit for digit.
func exactly(_ text: String) -> JSON {
    guard let json = try? JSONReader.read(text) else { preconditionFailure("\(text) is not JSON") }
    return json
}

/// A time, for examples that are known to be valid.
func time(_ text: String) -> Timestamp {
    guard let time = RFC3339.timestamp(text) else { preconditionFailure("\(text) is no time") }
    return time
}

/// A link's name, for examples that are known to be valid.
func link(_ text: String) -> LinkName {
    guard let name = LinkName(text) else { preconditionFailure("\(text) is no name of a link") }
    return name
}
