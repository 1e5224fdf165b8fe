/// The version of an entity's stored documents, with the settings that they were converted by.
///
/// The settings are compared as a text, because they are read at every start and needed only when they go back to an older version.
package struct StoredSchema: Hashable, Sendable {
    package var number: Int
    /// The text of ``SchemaVersions/json``; `nil`: no settings were ever stored.
    package var settings: String?

    package init(_ number: Int = 1, settings: String? = nil) {
        self.number = number
        self.settings = settings
    }

    package init(_ versions: SchemaVersions) {
        self.init(versions.present, settings: versions.json.json)
    }

    /// The settings; `nil`: there are none, or they cannot be read.
    package var versions: SchemaVersions? {
        guard let settings else { return nil }
        // The caller that needs the steps says that there are none.
        return try? SchemaVersions(stored: settings)
    }

    /// Returns whether the documents have the version of these settings, and were converted by the same steps.
    package func isOf(_ versions: SchemaVersions?) -> Bool {
        guard let versions else { return number == 1 && settings == nil }
        guard number == versions.present, let settings else { return false }
        return sameBytes(settings, versions.json.json)
    }
}
