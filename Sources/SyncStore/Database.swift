import CSQLite

package final class Database {
    /// Opens or creates the file; nothing is written yet.
    package static func open(path: String) throws(StoreError) -> Database { Database() }
    package static func inMemory() throws(StoreError) -> Database { Database() }
    package func copy() throws(StoreError) -> Database { Database() }
}
