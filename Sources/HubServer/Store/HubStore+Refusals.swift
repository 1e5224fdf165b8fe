import SyncCore

/// Records that were never created, because the hub refused it.
extension HubStore {
    /// The newest commit when the device's creation of the record was refused; `nil`: it never was.
    func refusal(_ name: RecordName, of device: DeviceID) throws(DatabaseError) -> Int64? {
        let refusal = WriteGroup.RefusalName(device: device, record: name)
        if let known = group?.refusal(refusal) { return known }
        let version = try covered { () throws(DatabaseError) in
            try database.first(HubStore.refusalQuery.sql, .text(device.text), .text(name.entity.text), .text(name.id.text)) { $0.int(0) }
        }
        group?.facts?.add(refusal, version: version)
        group?.request.seen.refusals.updateValue(version, forKey: refusal)
        return version
    }

    static let refusalQuery = LookUp(
        "SELECT version FROM refused_create WHERE device = ?1 AND entity = ?2 AND id = ?3", [.text, .text, .text])

    func putRefusal(_ name: RecordName, of device: DeviceID, version: Int64, at now: Timestamp) throws(DatabaseError) {
        try change(at: now) { layer in layer.writes.refusals[WriteGroup.RefusalName(device: device, record: name)] = version }
    }
}
