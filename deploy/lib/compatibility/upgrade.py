"""Upgrade in place: folders with everything that can wait are opened by the other programs, and what waits is delivered once."""
import json, random

from processes import digest, until
from programs import Failure
from stand import Site

ENTITIES = """\
entities:
  work_orders: { kind: record, fields: { finding: manual, tally: counter } }
  readings: { kind: event }
  inspections: { kind: record }
"""
# The office alone writes orders; the device believes that it may, so the hub refuses what it sends.
HUB = ENTITIES + "  orders: { kind: reference }\n"
AGENT = "entities: { orders: { kind: record } }\nlocked: [entities.orders]\n"
# The hub of later: devices may write orders, too.
OPENED = ENTITIES + "  orders: { kind: record }\n"
SIZE = 3_000_000
ORDERS = ("agents first", "hub first", "both at once")


def run(report, earlier, present, order, engine=None):
    with Site(earlier, HUB, engine) as site:
        try:
            first, second = site.device(earlier, "d-1", entities=AGENT), site.device(earlier, "d-2", entities=AGENT)
            before = prepare(site, first, second)
            for device in (first, second): device.kill()
            site.hub.kill()
            upgrade(report, site, present, order, before)
            finish(report, site, first, second, before)
            go_back(report, site, earlier, present, first)
        except Exception as error:
            report.broke(error, site.logs())


def prepare(site, first, second):
    """Leaves an open conflict, a rejection, half a file, a change whose answer was lost, and changes that were not sent yet."""
    first.change("work_orders", "w-1", {"finding": "open"})
    for number in (2, 3): first.change("work_orders", f"w-{number}", {"title": f"order {number}"})
    first.change("work_orders", "w-5", {"tally": 1})
    site.settle(first, second)

    first.line.cut()
    first.change("work_orders", "w-1", {"finding": "fail"})
    second.change("work_orders", "w-1", {"finding": "pass"})
    second.settle()
    first.line.cut(False)
    first.change("orders", "o-1", {"part": "valve", "count": 2})
    first.settle()
    until("the conflict and the rejection are here", lambda: first.counts()["conflicted"] == 1 == first.counts()["rejected"])

    photo = first.folder / "photo.jpg"
    photo.write_bytes(random.Random(5).randbytes(SIZE))
    first.line.left = SIZE * 6 // 10
    status, said = first.ctl("blobs", "add", str(photo), "--for", "inspections/i-1", "--field", "photo")
    if status: raise Failure(f"blobs add: {said}")
    until("the upload is cut in its middle", lambda: first.line.is_cut)
    # The placeholder may have gone before the bytes; the rest of the line's life belongs to the change whose answer gets lost.
    first.line.swallows = True
    applied = site.hub.applied()
    first.line.cut(False)
    first.change("work_orders", "w-5", action="update", ops=[{"field": "tally", "op": "inc", "value": 10}])
    until("the change whose answer is lost is at the hub", lambda: site.hub.applied() > applied and
          site.hub.records("work_orders")["w-5"].get("tally") == 11)
    first.line.cut()
    first.line.swallows = False

    first.change("work_orders", "w-2", {"title": "changed"}, "update")
    first.change("work_orders", "w-3", action="delete")
    first.change("work_orders", "w-5", action="update", ops=[{"field": "tally", "op": "inc", "value": 100}])
    first.write({"atomic": True, "mutations": [
        {"entity": "work_orders", "record_id": f"w-{number}", "action": "create", "data": {"list": 1}} for number in (6, 7)]}, "list")
    first.change("readings", "r-1", {"value": 7}, "create", key="reading")
    return facts(first)


def facts(device):
    """What an upgrade must carry over."""
    counts = device.counts()
    rejected = [(item["record_id"], (item.get("problem") or {}).get("code")) for item in
                device.listed("/v1/mutations?state=rejected")]
    conflicts = [item["id"] for item in device.listed("/v1/conflicts")]
    return {"open": counts["pending"] + counts["in_flight"], "conflicted": counts["conflicted"], "rejected": rejected,
            "conflicts": conflicts, "blobs": [item["id"] for item in device.listed("/v1/blobs")],
            "work_orders": device.mirror("work_orders"), "orders": device.mirror("orders")}


def upgrade(report, site, present, order, before):
    first, second = site.devices["d-1"], site.devices["d-2"]
    earlier, hub = first.programs, site.hub
    if order != "hub first":
        for device in (first, second): device.programs = present
    if order != "agents first": hub.programs = present
    hub.start()
    for device in (first, second): device.start()
    if order != "hub first": report.equal("the present agent has what waits, conflicts, rejections and files", facts(first), before)
    status, _ = first.ask("POST", "/v1/mutations", {"entity": "readings", "record_id": "r-1", "action": "create", "data": {"value": 7}},
                          Idempotency_Key="reading")
    report.equal("a repeat with a key from before the upgrade is answered as a repeat", status, 200)
    sent = first.line.up
    first.line.cut(False)
    site.settle()
    until("the file is at the hub", lambda: photo(hub).get("state") == "uploaded")
    report.holds("the rest of the file was sent, not all of it", first.line.up - sent, lambda count: 0 < count < SIZE * 8 // 10,
                 f"less than {SIZE * 8 // 10} bytes", never=SIZE)
    hub.restart(present)
    for device in (first, second):
        device.restart(present)
    site.settle()
    if order == "hub first":
        after = facts(first)
        report.equal("the present agent has the conflict and the rejection", (after["conflicts"], after["rejected"]),
                     (before["conflicts"], before["rejected"]))


def photo(hub):
    return hub.records("inspections").get("i-1", {}).get("photo", {})


def finish(report, site, first, second, before):
    first.must("POST", f"/v1/conflicts/{before['conflicts'][0]}/resolve", {"choice": "local"})
    site.hub.apply(OPENED)
    site.settle()
    rejected = first.listed("/v1/mutations?state=rejected")[0]["id"]
    first.must("POST", f"/v1/mutations/{rejected}/retry", {})
    site.settle()
    report.equal("everything is at the hub once", site.hub.records("work_orders"), {
        "w-1": {"finding": "fail"}, "w-2": {"title": "changed"}, "w-5": {"tally": 111}, "w-6": {"list": 1}, "w-7": {"list": 1}})
    report.equal("the event is at the hub once", site.hub.records("readings"), {"r-1": {"value": 7}})
    report.equal("the rejected change is at the hub after a retry", site.hub.records("orders"), {"o-1": {"part": "valve", "count": 2}})
    applied = {item["id"]: item["mutations"]["applied"] for item in site.hub.stats()["devices"]}
    report.equal("each change that an agent calls done took effect once at the hub", applied,
                 {name: device.counts()["done"] for name, device in site.devices.items()})
    for device in (first, second):
        report.equal(f"the mirror of {device.name} is the hub's", device.mirror("work_orders"), site.hub.records("work_orders"))
        report.equal(f"{device.name}: no alarm", device.alarms(), [])


def go_back(report, site, earlier, present, first):
    """The earlier programs on the folders of the present ones. Either the format is the same, or they refuse, and nothing is changed."""
    first.line.cut()
    first.change("work_orders", "w-8", {"title": "unsent"})
    records, mirror = site.hub.records("work_orders"), first.mirror("work_orders")
    first.stop()
    site.hub.stop()

    # The agent serves what it can read; a change of anything must be refused in words.
    kept = digest_of(first.state)
    first.programs = earlier
    first.start()
    status, answer = first.ask("POST", "/v1/mutations", {"entity": "work_orders", "record_id": "w-9", "action": "create", "data": {}},
                               Idempotency_Key="back")
    if status == 201:
        report.equal("back to the earlier agent, whose format is the same: the mirror", first.mirror("work_orders"), {**mirror, "w-9": {}})
        first.must("DELETE", f"/v1/mutations/{answer['id']}")
    else:
        report.holds("back to the earlier agent is refused in words", f"{status} {json.dumps(answer)}",
                     lambda text: text.startswith("503") and "newer" in text, "503 and a sentence about a newer database", never="503 {}")
        report.holds("the doctor of the earlier agent says so", first.ctl("doctor")[1] + first.ctl("status")[1],
                     lambda text: "newer" in text, "a sentence about a newer database", never="all is well")
    first.stop()
    if status != 201: report.equal("the refusing agent leaves the database as it is", digest_of(first.state), kept)

    data, kept = site.hub.data, None
    if not site.hub.database: kept = digest_of(data)
    site.hub.programs = earlier
    refusal = ""
    try: site.hub.start()
    except Failure as failure: refusal = str(failure)
    if refusal:
        report.holds("back to the earlier hub is refused in words", refusal, lambda text: "newer" in text or "knows" in text,
                     "a sentence about a newer database", never="status 70")
        if kept: report.equal("the refusing hub leaves the database as it is", digest_of(data), kept)
    else:
        report.equal("back to the earlier hub, whose format is the same: the records", site.hub.records("work_orders"), records)
        site.hub.stop()

    first.programs = site.hub.programs = present
    site.hub.start()
    first.start()
    first.line.cut(False)
    site.settle()
    report.equal("the present programs go on after the attempt", site.hub.records("work_orders"), {**records, "w-8": {"title": "unsent"}})


def digest_of(folder):
    """Checksums of what counts: databases, and files of apps. An empty log of a database says nothing."""
    return {name: sum for name, sum in digest(folder).items() if name.endswith((".db", ".db-wal")) or name.startswith("blobs/")}
