import LocalAPI
import SyncCore
import Testing

@Suite("Screens of files")
struct BlobsScreenTests {
    @Test(
        "The list tells of a fetched file whether its bytes are still here",
        arguments: [
            (state: "fetched", isKept: true, shown: "b-1  down  fetched  100 %"),
            (state: "fetched", isKept: false, shown: "b-1  down  fetched, not kept  100 %"),
            (state: "fetching", isKept: false, shown: "b-1  down  fetching  99 %"),
        ])
    func fetched(state: String, isKept: Bool, shown: String) {
        let item = BlobItem(
            id: "b-1", digest: "sha256:00", size: 3, type: "text/plain", filename: "a.txt", state: state, direction: .down, offset: 3,
            attempts: 0, links: [], isVerified: true, isKept: isKept, createdAt: nil, doneAt: nil, error: nil, deferral: nil)
        #expect(BlobsScreen.line(item) == shown + "  3 B  text/plain  a.txt")
    }
}
