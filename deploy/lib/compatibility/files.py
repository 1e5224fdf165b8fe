"""Files that one release brings and another one fetches; a release that cannot fetch shows the placeholder and goes on."""
import hashlib, random

from processes import until
from programs import Failure
from stand import Site

ENTITIES = """\
entities:
  inspections: { kind: record }
"""
SIZE = 900_000


def run(report, hub, uploader, reader, engine=None):
    with Site(hub, ENTITIES, engine) as site:
        try:
            first, second = site.device(uploader, "d-1"), site.device(reader, "d-2")
            site.settle()
            content = random.Random(3).randbytes(SIZE)
            photo = first.folder / "photo.jpg"
            photo.write_bytes(content)
            status, said = first.ctl("blobs", "add", str(photo), "--for", "inspections/i-1", "--field", "photo")
            if status: raise Failure(f"blobs add: {said}")
            name = "sha256:" + hashlib.sha256(content).hexdigest()
            until("the file is at the hub", lambda: first.sync() and
                  site.hub.records("inspections").get("i-1", {}).get("photo", {}).get("state") == "uploaded")
            site.settle()
            shown = second.mirror("inspections").get("i-1", {}).get("photo", {})
            report.equal("the other device shows the placeholder", {key: shown.get(key) for key in ("$blob", "size", "state")},
                         {"$blob": name, "size": SIZE, "state": "uploaded"})
            fetch(report, site, second, name, content)
            second.change("inspections", "i-1", {"result": "pass"}, "update")
            site.settle()
            report.equal("a change beside the placeholder leaves it as it is", site.hub.records("inspections"),
                         {"i-1": {"photo": shown, "result": "pass"}})
            report.equal("the device that brought the file shows the same", first.mirror("inspections"), site.hub.records("inspections"))
            for device in (first, second): report.equal(f"{device.name}: no alarm", device.alarms(), [])
        except Exception as error:
            report.broke(error, site.logs())


def fetch(report, site, device, name, content):
    """Fetches where both sides can. Otherwise nothing is attempted, or it is told in words."""
    if not device.programs.fetches_files:
        report.equal("an agent that fetches no files lists none", device.listed("/v1/blobs"), [])
        report.equal("its status is well", device.ctl("status")[0], 0)
        return
    place = device.folder / "fetched"
    status, said = device.ctl("blobs", "fetch", name, "--wait", "20s", "--output", str(place))
    if status == 0:
        report.equal("the other device fetches the file, byte for byte", place.read_bytes() == content, True)
        return
    # Only a hub that hands files to those alone who brought them may refuse.
    report.holds("a hub that hands out no files of others: the device says so", f"{status} {said}",
                 lambda text: "the hub" in text and not site.hub.programs.fetches_files, "a sentence about the hub, of a hub that cannot",
                 never="1 agentctl: internal error")
    report.equal("nothing of the file is on the device", [path for path in device.holds_bytes("$blob") if "incoming" in path], [])
    device.settle()
    report.equal("its status is well", device.ctl("status")[0], 0)
