import SyncCore
import SyncStore
import Testing

@Suite("Sentences about the row of a file")
struct BlobStandingTests {
    @Test("The way from the hub goes before the way to it, and bytes are here only where a file can have them")
    func standings() {
        func standing(_ state: Int64, _ fetch: Int64?, _ hasFile: Bool) -> BlobStanding? {
            BlobStanding(state: state, fetch: fetch, hasFile: hasFile)
        }
        #expect(standing(0, nil, true) == .pending && standing(2, nil, true) == .uploadFailed && standing(3, nil, false) == .missing)
        #expect(standing(1, nil, true) == .uploaded(isHere: true) && standing(1, nil, false) == .uploaded(isHere: false))
        #expect(standing(1, 0, false) == .fetching && standing(1, 2, false) == .fetchFailed)
        #expect(standing(1, 1, true) == .fetched(isHere: true) && standing(1, 1, false) == .fetched(isHere: false))
        #expect(standing(9, nil, true) == nil && standing(9, 0, false) == .fetching && standing(1, 7, true) == .uploaded(isHere: true))
    }
}
