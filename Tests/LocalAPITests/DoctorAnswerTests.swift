import LocalAPI
import SyncCore
import Testing

@Suite("The doctor's answer and screen") struct DoctorAnswerTests {
    static let sample = DoctorAnswer(findings: [
        DoctorFinding(id: "agent", severity: .ok, detail: "it answers", why: "apps can hand over nothing while no agent runs"),
        DoctorFinding(
            id: "disk", severity: .bad, detail: "3 MB of 32 GB free, less than store.min_free (64 MB)",
            why: "with a full disk nothing more is accepted",
            fix: "journalctl --vacuum-size=50M; apt-get clean; du -xh / | sort -h | tail"),
        DoctorFinding(id: "dns", severity: .unknown, detail: "not asked for yet", why: "the hub is found by its name"),
        DoctorFinding(
            id: "sqlite_version", severity: .note, detail: "sqlite 3.40.1 predates the WAL-reset fix; \u{1B}[2J only one process writes",
            why: "two writers", fix: "nothing now"),
    ])

    @Test("It reads as it was written")
    func roundTrip() throws {
        #expect(try DoctorAnswer(JSONReader.read(Self.sample.answer.body)) == Self.sample)
    }

    @Test("The members of the contract are there, and a check that could not be made is neither good nor bad")
    func members() throws {
        let json = try JSONReader.read(Self.sample.answer.body)
        #expect(json.object?["ok"] == 1)
        #expect(json.object?["total"] == 3)
        let items = try #require(json.object?["items"]?.array)
        #expect(items[1].object?["ok"] == false)
        #expect(items[1].object?["severity"] == "bad")
        #expect(items[2].object?["ok"] == nil)
        #expect(json.object?["schema"] == "checklist/1")
    }

    @Test(
        "Only what must be mended makes the exit status",
        arguments: [
            (DoctorFinding.Severity.ok, Int32(0)), (.note, 0), (.unknown, 0), (.warn, 1), (.bad, 1),
        ])
    func exitStatus(_ severity: DoctorFinding.Severity, _ status: Int32) {
        #expect(DoctorAnswer(findings: [.init(id: "x", severity: severity, detail: "", why: "")]).exitStatus == status)
    }

    @Test("The gravest finding comes first, with why and how, and checks that are OK are counted")
    func picture() {
        let lines = DoctorScreen.render(Self.sample, width: 80)
        #expect(
            lines == [
                "BAD  disk                  3 MB of 32 GB free, less than store.min_free (64 MB)",
                "     why  with a full disk nothing more is accepted",
                "     fix  journalctl --vacuum-size=50M; apt-get clean; du -xh / | sort -h | tail",
                "note sqlite_version        sqlite 3.40.1 predates the WAL-reset fix; ?[2J only",
                "                           one process writes",
                "     why  two writers",
                "     fix  nothing now",
                "1 of 3 checks are OK, 1 failed, 1 note; 1 could not run",
            ], "\(lines.joined(separator: "\n"))")
    }

    @Test("No line is wider than the screen", arguments: [40, 60, 80, 200])
    func fits(width: Int) {
        for line in DoctorScreen.render(Self.sample, width: width, showsAll: true) {
            #expect(PlainText.columns(line) <= width, "\(line)")
        }
    }

    @Test("The status says how many checks are OK, and names the gravest that is not")
    func status() throws {
        var document = StatusSamples.all[0].document
        document.checklist = StatusDocument.Checklist(Self.sample.summary)
        #expect(try StatusDocument(JSONReader.read(document.answer.body))?.checklist == document.checklist)
        let lines = StatusScreen.render(document, now: document.sync.lastSuccess ?? Timestamp(milliseconds: 0), color: false)
        #expect(lines.contains { $0.hasPrefix("CHECKS    1/3 ok   ! disk: 3 MB of 32 GB free") }, "\(lines.joined(separator: "\n"))")
    }
}
