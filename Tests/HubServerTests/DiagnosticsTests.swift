import Foundation
import HubServer
import SyncCore
import SyncLinux
import Testing

@Suite("Reports of devices")
final class DiagnosticsTests {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private var file: String { folder.appendingPathComponent("hub.db").path }

    private static func send(_ bench: HubBench, _ text: String, device: DeviceID = .one, gzip: Bool = false) -> HubResponse {
        var headers: HTTPHeaders = ["Content-Type": "application/x-ndjson"]
        HubRequestHeaders(device: device, replica: "r-1").write(to: &headers)
        var body = Array(text.utf8)
        if gzip {
            body = ZlibCompressor().gzip(body) ?? []
            headers["Content-Encoding"] = "gzip"
        }
        return bench.hub.handle(HubRequest("POST", "/v1/diagnostics", headers: headers, body: body), at: bench.now)
    }

    private static let lines =
        #"{"type":"summary","level":"degraded"}"# + "\n" + String(repeating: #"{"type":"sync","n":1}"# + "\n", count: 50)

    @Test("A report is kept as it came, and read beside the running hub")
    func kept() throws {
        let bench = try HubBench(compressor: ZlibCompressor(), place: .file(file))
        #expect(Self.send(bench, Self.lines, gzip: true).status == 202)
        bench.now = bench.now.advanced(by: .seconds(60))
        #expect(Self.send(bench, #"{"type":"summary"}"#, device: .two).status == 202)
        let inspector = try HubInspector(file: file)
        #expect(try inspector.reports().map(\.device) == [.one, .two])
        #expect(try inspector.reports(of: .one).map(\.lines) == [Self.lines])
    }

    @Test(
        "A body that is not lines of objects is refused, and leaves nothing",
        arguments: ["", "x", "[1]", "{}\n{", "{\"a\":1}\n\"x\"\n", "{\"a\":1,\"a\":2}"])
    func malformed(_ text: String) throws {
        let bench = try HubBench(place: .file(file))
        #expect(Self.send(bench, text).status == 400)
        #expect(try HubInspector(file: file).reports() == [])
    }

    @Test("A device cannot fill the disk: the newest 64 are kept, for 14 days")
    func bounded() throws {
        let bench = try HubBench(place: .file(file))
        #expect(Self.send(bench, #"{"n":-1}"#, device: .two).status == 202)
        for number in 0..<70 { #expect(Self.send(bench, #"{"n":\#(number)}"#).status == 202) }
        let inspector = try HubInspector(file: file)
        #expect(try inspector.reports(of: .one).map(\.lines) == (6..<70).map { #"{"n":\#($0)}"# })
        #expect(try inspector.reports(of: .two).count == 1)
        bench.now = bench.now.advanced(by: HubRetention().reports + .seconds(1))
        #expect(Self.send(bench, #"{"n":70}"#).status == 202)
        try bench.hub.housekeep(at: bench.now)
        #expect(try inspector.reports().map(\.lines) == [#"{"n":70}"#])
    }

    @Test("Too much is refused")
    func tooLarge() throws {
        let bench = try HubBench(place: .memory)
        #expect(Self.send(bench, #"{"a":"\#(String(repeating: "x", count: 2 << 20))"}"#).status == 413)
    }
}
