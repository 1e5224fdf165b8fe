"""A second hub over a PostgreSQL database: beside the first one, or in its place where the schema locks the first one out."""
import pathlib, re

from processes import digest, until

#: The manual says which schemas lock out hubs of earlier ones. Programs could not be believed: a mistake in them would excuse itself.
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs/hub-on-postgresql.md"
#: What each device does before the second hub starts, and as often while no hub takes anything.
STEPS = 5


def locking_schemas():
    """Versions whose hubs lock out those of earlier versions: the manual's list has them as `- Schema N`, with the words `locked out`."""
    items = re.findall(r"^- Schema (\d+) (.*(?:\n  .*)*)", MANUAL.read_text(), re.MULTILINE)
    return {int(version) for version, text in items if "locked out" in " ".join(text.split())}


def second_hub(report, site, engine, programs, entities, authors):
    """Starts a hub of other programs over the database of the first one, which has served the devices so far."""
    database = site.hub.database
    before, _ = engine.schema(database)
    for author in authors * STEPS: author.step()
    site.settle()
    site.add_replica(programs, entities)
    present, oldest = engine.schema(database)
    should = any(before < version <= present for version in locking_schemas())
    what = f"schema {present} after schema {before}: the hub of before is locked out exactly if the manual says so"
    report.equal(what, oldest > before, should)
    if oldest > before: lock_out(report, site, engine, programs, authors, (before, oldest))


def lock_out(report, site, engine, programs, authors, schemas):
    """The hub of before serves nothing, does not start again and changes nothing. Hubs of the other programs take its place.

    schemas: the newest one that the hub of before knows, and the oldest one that the database is for.
    """
    earlier, replica = site.hubs
    until("the hub of before is not ready", lambda: not earlier.is_ready())
    # Only the hub of before could change the database now.
    replica.stop()
    kept, files = engine.dump(earlier.database), digest(earlier.data)
    done = {device.name: device.counts()["done"] for device in site.devices.values()}
    for author in authors * STEPS: author.step()
    for device in site.devices.values():
        until(f"{device.name} has tried the hub of before in vain", lambda: device.status()["sync"]["last_error"])
    report.equal("no agent calls a change done that the hub of before cannot take",
                 {device.name: device.counts()["done"] for device in site.devices.values()}, done)
    says_why(report, "the hub of before says in its log why it serves nothing", earlier.log, schemas)
    same(report, "the hub of before, while it runs,", engine, earlier, kept, files)

    earlier.stop()
    logged = len(earlier.log)
    report.equal("the hub of before ends with this status when it is started again", earlier.try_to_start(), 65)
    says_why(report, "the hub of before says why it does not start", earlier.log[logged:], schemas)
    same(report, "the hub of before, at its start,", engine, earlier, kept, files)

    earlier.restart(programs)
    replica.start()


def says_why(report, what, text, schemas):
    knows, needs = schemas
    sentence = f"it is for programs that know schema {needs}, this one knows up to {knows}; install a newer version"
    report.holds(what, text, lambda found: sentence in found, sentence, "agenthub: listening")


def same(report, who, engine, hub, kept, files):
    """A database is too large to be shown: its lines that differ are."""
    now = engine.dump(hub.database)
    changed = sorted(set(now.splitlines()) ^ set(kept.splitlines()))
    report.equal(f"{who} changes nothing in the database", (now == kept, changed[:3]), (True, []))
    report.equal(f"{who} changes no file", digest(hub.data), files)
