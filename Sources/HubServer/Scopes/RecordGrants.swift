package import SyncCore

/// A scope that a device has because a record grants it (`grants_from`, PROTOCOL A16).
package struct RecordGrant: Hashable, Sendable {
    package var device: DeviceID
    package var scope: Scope
    package var record: RecordName
}

extension HubInspector {
    /// The grants that records give at present, by device, scope and record. A record that is gone leaves none.
    ///
    /// - Parameter device: `nil`: those of all devices.
    package func recordGrants(of device: DeviceID? = nil) throws(HubError) -> [RecordGrant] {
        try reading { (_) throws(DatabaseError) in try store.grantsByRecords(to: device) }
    }
}

extension HubStore {
    /// The grants that records give at present, by device, scope and record.
    ///
    /// - Parameter device: `nil`: those of all devices.
    func grantsByRecords(to device: DeviceID?) throws(DatabaseError) -> [RecordGrant] {
        let columns = "SELECT device, field, value, entity, id FROM record_grant"
        guard let device else {
            return try database.all("\(columns) ORDER BY device, field, value, entity, id", read: RecordGrant.init)
        }
        return try database.all(
            "\(columns) WHERE device = ? ORDER BY field, value, entity, id", .text(device.text), read: RecordGrant.init)
    }
}

extension RecordGrant {
    fileprivate init(_ row: any DatabaseRow) {
        self.init(
            device: DeviceID(trusted: row.text(0)), scope: Scope(row.text(1), row.text(2)),
            record: RecordName(EntityName(trusted: row.text(3)), RecordID(trusted: row.text(4))))
    }
}
