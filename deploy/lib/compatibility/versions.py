"""A schema gets a second version while devices are away that do not know versions: their work is accepted, and each side shows it right."""
import json, pathlib, shutil, struct, subprocess, tempfile, time

from processes import until
from stand import Site

FIRST = """\
entities:
  audits:
    validate: reject
    schema: { required: [site], properties: { site: { type: string }, note: { type: string } } }
"""
SECOND = """\
entities:
  audits:
    validate: reject
    schema: 2
    versions:
      1: { schema: { required: [site], properties: { site: { type: string }, note: { type: string } } } }
      2:
        schema:
          required: [site_id, inspector]
          properties: { site_id: { type: string }, inspector: { type: string }, note: { type: string } }
        up: [ { rename: { site: site_id } }, { default: { inspector: unknown } } ]
"""
AWAY = 50


class Calendar:
    """The clocks of all programs of a site, moved by days."""

    def __init__(self, library):
        self.file = pathlib.Path(tempfile.mkstemp(prefix="clock-")[1])
        self.file.write_bytes(struct.pack("5q", *[0] * 5))
        self.environment = {"LD_PRELOAD": str(library), "CLOCKWARP_FILE": str(self.file)}

    def pass_days(self, days):
        more = days * 86_400 * 10**9
        with open(self.file, "r+b") as file: file.write(struct.pack("5q", more, more, more, 0, 0))

    def close(self):
        self.file.unlink()


def clock_library(folder):
    """The library that moves clocks, compiled; None where that cannot be done."""
    source = pathlib.Path(__file__).resolve().parents[3] / "Tests/CClockWarp"
    compiler = next((name for name in ("cc", "clang", "gcc") if shutil.which(name)), None)
    if not compiler or not source.is_dir(): return None
    library = pathlib.Path(folder) / "clockwarp.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-I", str(source / "include"), str(source / "CClockWarp.c"), "-o", str(library), "-ldl"]
    return library if subprocess.run(words, capture_output=True).returncode == 0 else None


def run(report, hub_before, hub_after, agents, agents_after=None, days=0, library=None, engine=None):
    """agents: the programs of the device that is away. It comes back after so many days as agents_after; a present device stays."""
    calendar = Calendar(library) if days else None
    try:
        with Site(hub_before, FIRST, engine, calendar.environment if calendar else None) as site:
            try: story(report, site, hub_after, agents, agents_after or agents, days, calendar)
            except Exception as error: report.broke(error, site.logs())
    finally:
        if calendar: calendar.close()


def story(report, site, hub_after, agents, agents_after, days, calendar):
    today = time.strftime("%Y-%m-%d", time.gmtime())
    knowing = next((programs for programs in (hub_after, agents) if programs.agent_has_versions), hub_after)
    away, stays = site.device(agents, "d-1"), site.device(knowing, "d-2")
    site.hub.publish("audits", {f"old-{number}": {"site": f"o-{number}"} for number in range(6)})
    site.settle()

    away.line.cut()
    for number in range(AWAY): away.change("audits", f"a-{number}", {"site": f"s-{number}", "note": "offline"}, "create")
    away.change("audits", "old-1", {"site": "moved"}, "update")
    away.change("audits", "old-2", {"note": "seen"}, "update")
    away.change("audits", "old-3", action="delete")

    # The other device has gone on, and deleted a record whose deletion may be forgotten before the first one is back.
    stays.change("audits", "old-4", action="delete")
    stays.change("audits", "old-5", {"note": "theirs"}, "update")
    stays.settle()
    if days:
        for device in (away, stays): device.stop()
    site.hub.stop()
    if days: calendar.pass_days(days)
    site.hub.programs = hub_after
    site.hub.start()
    if days: stays.start()
    site.hub.apply(SECOND)
    stays.settle()
    until("the present device has the second version", lambda: stays.sync() and stays.mirror("audits").get("old-0", {}).get("site_id"))
    stays.change("audits", "new-1", {"site_id": "n-1", "inspector": "ines"}, "create")
    stays.settle()
    if days: away.programs = agents_after
    if days: away.start()
    away.line.cut(False)
    drain(away)
    site.settle()
    if days:
        seen = json.loads(site.hub.run("devices", "--json"))[0]["last_seen"]
        report.holds("the clocks have gone on", seen[:10], lambda day: day > today, f"a day after {today}", never=today)
    judge(report, site, away, stays)
    go_on(report, site, away, stays)


def drain(device):
    def drained():
        if device.sync().get("result") != "ok": return False
        counts = device.counts()
        return counts["pending"] == counts["in_flight"] == 0
    until(f"{device.name} ({device.programs}) has sent everything", drained, 60)


def expected():
    audits = {f"a-{number}": {"site_id": f"s-{number}", "note": "offline", "inspector": "unknown"} for number in range(AWAY)}
    audits |= {f"old-{number}": {"site_id": f"o-{number}", "inspector": "unknown"} for number in (0, 1, 2, 5)}
    audits["old-1"]["site_id"], audits["old-2"]["note"], audits["old-5"]["note"] = "moved", "seen", "theirs"
    return {**audits, "new-1": {"site_id": "n-1", "inspector": "ines"}}


def as_first(document):
    """A document of the second version as the first one shows it."""
    return {("site" if name == "site_id" else name): value for name, value in document.items() if name != "inspector"}


def judge(report, site, away, stays):
    report.equal(f"all {AWAY} audits of the {away.programs} agent are at the hub in the second version", site.hub.records("audits"),
                 expected())
    counts = away.counts()
    report.equal("nothing of them was rejected or parked", {state: counts[state] for state in ("rejected", "failed", "held", "expired")},
                 {"rejected": 0, "failed": 0, "held": 0, "expired": 0})
    report.equal("the present device shows the second version", stays.mirror("audits"), expected())
    if away.programs.agent_has_versions:
        until("the device that was away has the second version",
              lambda: away.sync() and away.mirror("audits").get("old-0", {}).get("site_id"))
        away.settle()
        report.equal("the device that was away shows the second version", away.mirror("audits"), expected())
        report.equal("it has no alarm", away.alarms(), [])
    else:
        report.equal("the device that was away shows the first version", away.mirror("audits"),
                     {id: as_first(data) for id, data in expected().items()})
        status = away.status()
        report.equal("it tells that its settings need a person", status["overall"], {"level": "attention", "reasons": ["config"]})
        told = [" ".join(text.split()) for text in (status["config"].get("error") or "", away.ctl("doctor")[1], away.log)]
        report.holds("its status, doctor and log name the key of the hub's settings", told,
                     lambda told: all("audits" in one and "server:" in one for one in told), "server: and audits in each",
                     never=["", "", ""])
        report.equal("it has no other alarm", [code for code in away.alarms() if code != "config_rejected"], [])
    devices = {item["id"]: item for item in json.loads(site.hub.run("devices", "--json"))}
    report.equal("the operator sees whether the device works by the newest settings", devices["d-1"]["config"] == devices["d-2"]["config"],
                 away.programs.agent_has_versions)
    if "config_current" in devices["d-1"]:
        report.equal("the hub says it of each device", [devices[name]["config_current"] for name in ("d-1", "d-2")],
                     [away.programs.agent_has_versions, True])


def go_on(report, site, away, stays):
    """Both change one audit, each in its own version."""
    name = "site_id" if away.programs.agent_has_versions else "site"
    away.change("audits", "a-7", {name: "later"}, "update")
    away.settle()
    stays.settle()
    stays.change("audits", "a-7", {"inspector": "ines"}, "update")
    stays.settle()
    away.settle()
    wanted = {"site_id": "later", "note": "offline", "inspector": "ines"}
    report.equal("changes in two versions meet in one record", site.hub.records("audits")["a-7"], wanted)
    report.equal("the device that was away shows it", away.mirror("audits")["a-7"],
                 wanted if away.programs.agent_has_versions else as_first(wanted))


def without(report, hub, agents, engine=None):
    """Agents beside a hub that knows no versions: it refuses such settings in words, and the agents go on."""
    with Site(hub, FIRST, engine) as site:
        try:
            device = site.device(agents, "d-1")
            device.change("audits", "a-1", {"site": "s-1"}, "create")
            device.settle()
            site.hub.file.write_text(SECOND)
            report.holds("the hub refuses settings with versions, and names the place", hub.check_entities(site.hub.file),
                         lambda ended: ended[0] != 0 and "entities.audits" in ended[1], "a refusal that names audits", never=(0, "good"))
            # The device's own file is ahead of the hub.
            device.entities = SECOND + "locked: [entities]\n"
            device.restart()
            device.change("audits", "a-2", {"site_id": "s-2", "inspector": "ines"}, "create")
            drain(device)
            rejected = [item["record_id"] for item in device.listed("/v1/mutations?state=rejected")]
            report.holds("a device that is ahead of its hub loses nothing", sorted([*site.hub.records("audits"), *rejected]),
                         lambda ids: ids == ["a-1", "a-2"], "a-1 and a-2, at the hub or rejected with a reason", never=["a-1"])
            if rejected:
                report.holds("what the hub rejected is told with the place", device.ctl("rejected", "show", rejected_id(device))[1],
                             lambda text: "/data/site" in text, "/data/site", never="")
        except Exception as error:
            report.broke(error, site.logs())


def rejected_id(device):
    return device.listed("/v1/mutations?state=rejected")[0]["id"]
