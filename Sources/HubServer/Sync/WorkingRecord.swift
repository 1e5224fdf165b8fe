import SyncCore

/// A record while the batch is being decided, as the device may see it: one of others does not exist for it.
struct WorkingRecord {
    /// The record of the hub.
    private(set) var stored: VersionedRecord?
    /// The record exists, and is outside of the device's share.
    private(set) var isHidden: Bool
    /// Only with a rule switched off: verdicts show the record although it is hidden.
    var showsHidden = false
    /// The version that the record had before this batch; 0 when there was none.
    let versionBefore: Int64
    private(set) var text: String?
    private(set) var key = ""
    private(set) var isChanged = false
    /// The document before this batch, as far as the device may see it.
    let dataBefore: JSONObject?
    /// The scopes of the stored row.
    let scopesBefore: [Scope]
    /// The same with the changes of this batch, whether the device receives the record or not.
    private(set) var scopesNow: [Scope]
    /// The present scopes, which a deleted record keeps; `nil`: there is no record that the device receives.
    private(set) var scopes: [Scope]?

    /// The row exists and cannot be read: only the existence of the record is known.
    let isDamaged: Bool
    /// The version of the schema that the caller reads; `nil`: it is not accepted, and nothing is shown.
    let view: SchemaView?

    /// - Parameter share: `nil`: nothing is hidden.
    init(_ row: HubStore.RecordRow?, _ rules: EntityRules?, _ share: DeviceAccess?, view: SchemaView?) {
        self.view = view
        let isScoped = rules?.isScoped ?? false
        scopesBefore = row?.scopes ?? []
        scopesNow = scopesBefore
        isHidden = row != nil && isScoped && share.map { !$0.includesAny(of: row?.scopes ?? []) } ?? false
        stored = row?.whole
        isDamaged = row?.isWhole == false && !isHidden
        versionBefore = isHidden ? 0 : row?.version ?? 0
        dataBefore = isHidden ? nil : stored?.data
        scopes = row == nil || isHidden ? nil : scopesBefore
    }

    mutating func replace(_ record: VersionedRecord, text: String?, key: MutationKey, _ rules: EntityRules, _ share: DeviceAccess?) {
        stored = record
        self.text = text
        self.key = key.text
        isChanged = true
        guard rules.isScoped else { return }
        if let data = record.data { scopesNow = rules.scopes(of: data) }
        guard let share else { return }
        if record.data != nil { scopes = scopesNow }
        // The device may have moved the record out of its share.
        isHidden = !share.includesAny(of: scopes ?? [])
        if isHidden { scopes = nil }
    }

    var record: VersionedRecord? { isHidden ? nil : stored }
    private var toShow: VersionedRecord? { (showsHidden ? stored : record).flatMap { record in view.map { $0.lower(record) } } }
    var state: HubState { toShow?.hubState ?? .absent }
    /// - Parameter fields: In the caller's version.
    func state(disputing fields: [String]) -> HubState { toShow?.hubState(disputing: fields) ?? .absent }
    /// The record in an acceptance.
    var shown: HubRecord? { record.flatMap { record in view.flatMap { $0.lower(record).hubRecord() } } }
    var isLive: Bool { isDamaged || record?.isDeleted == false }
}
