"""A fleet without scopes gets them while its devices are away: each has its share afterwards, and no unsent work is lost."""
import json

from processes import until
from stand import Site

PLAIN = """\
entities:
  work_orders: { kind: record }
  notes: { kind: record }
"""
SCOPED = PLAIN.replace("work_orders: { kind: record }", "work_orders: { kind: record, scope: [site] }")
SITES = ("s-1", "s-2")
#: More than what an agent takes for an accident of the hub (mass_delete: 50 records and a fifth).
EACH = 80


def run(report, hub_before, hub_after, fleet, engine=None):
    """The hub begins as one release and goes on as another, which knows scopes. fleet: the programs of each device."""
    with Site(hub_before, PLAIN, engine) as site:
        try:
            devices = [site.device(programs, f"d-{number}") for number, programs in enumerate(fleet, 1)]
            share = {device.name: SITES[number % 2] for number, device in enumerate(devices)}
            begin(site, devices)
            away(site, devices, share)
            if hub_after is not hub_before: site.hub.restart(hub_after)
            grant(site, share)
            site.hub.apply(settings(site, share))
            site.hub.publish("work_orders", {f"late-{one}": {"site": one, "title": marker("late", one)} for one in SITES})
            for device in devices: device.line.cut(False)
            for device in devices: update(report, site, device, share[device.name])
            for device in devices: drain(device)
            site.settle()
            judge(report, site, devices, share)
            move(report, site, devices, share)
            exchange(report, site, devices, share)
        except Exception as error:
            report.broke(error, site.logs())


def marker(what, site):
    return f"the-{what}-secret-of-{site}-Zq7"


def begin(site, devices):
    site.hub.publish("work_orders", {f"{one}-{number}": {"site": one, "title": f"order {number}", "secret": marker("old", one)}
                                     for one in SITES for number in range(EACH)})
    site.hub.publish("notes", {"n-1": {"text": "for all"}})
    site.settle()


def away(site, devices, share):
    """Without a line each device changes a record of its own site and one of the other site, and makes one."""
    for device in devices:
        device.line.cut()
        own, other = share[device.name], foreign(share[device.name])
        device.change("work_orders", f"{own}-1", {f"by_{device.name[2:]}": device.name}, "update")
        device.change("work_orders", f"{other}-2", {f"by_{device.name[2:]}": marker("unsent", device.name)}, "update")
        device.change("work_orders", f"made-{device.name}", {"site": own, "title": device.name}, "create")
        device.change("notes", f"note-{device.name}", {"text": device.name}, "create")


def foreign(site):
    return SITES[1 - SITES.index(site)]


def settings(site, share):
    """With the grants in the file, where the release has no command for them."""
    if site.hub.programs.has_grants: return SCOPED
    return SCOPED + "devices:\n" + "".join(f"  {name}: {{ site: [{one}] }}\n" for name, one in share.items())


def grant(site, share):
    if not site.hub.programs.has_grants: return
    for name, one in share.items(): site.hub.run("grant", name, f"site={one}")


def update(report, site, device, own):
    """A hub that knows what an agent keeps takes nothing back from it, tells its operator, and goes on once the agent is updated."""
    if device.programs.lets_go or not site.hub.programs.refuses_who_keeps: return
    what = f"{device.programs} agent {device.name}"

    def shown():
        return {item["id"]: item for item in json.loads(site.hub.run("devices", "--json"))}[device.name]
    def refused():
        device.sync()
        return shown()["agent_too_old_since"] is not None
    until(f"the hub has refused {what}", refused)
    report.equal(f"{what}: the operator sees for which entity it is refused", shown()["agent_too_old_for"], "work_orders")
    until(f"{what}: its changes still arrive", lambda: device.sync() and
          site.hub.records("work_orders")[f"{own}-1"].get(f"by_{device.name[2:]}") == device.name)
    report.holds(f"{what}: it keeps its records meanwhile", len(device.mirror("work_orders")), lambda count: count >= 2 * EACH,
                 "all that it had", never=EACH)
    device.restart(site.hub.programs)
    until(f"{what} is updated, and the operator sees nothing any more", lambda: device.sync() and shown()["agent_too_old_since"] is None)


def drain(device):
    """Until nothing waits that could be sent. A listing of a new share may take a few cycles."""
    def drained():
        if device.sync().get("result") != "ok": return False
        counts = device.counts()
        return counts["pending"] == counts["in_flight"] == 0
    until(f"{device.name} ({device.programs}) has sent what it may", drained)


def judge(report, site, devices, share):
    orders = site.hub.records("work_orders")
    report.equal("the hub has all records", len(orders), 2 * EACH + 2 + len(devices))
    for device in devices:
        own, other = share[device.name], foreign(share[device.name])
        what = f"{device.programs} agent {device.name}"
        report.equal(f"{what}: the mirror is its share", device.mirror("work_orders"), at(orders, own))
        report.equal(f"{what}: records of entities without scopes stay", device.mirror("notes"), site.hub.records("notes"))
        report.equal(f"{what}: no byte of the other site came after the grants", device.holds_bytes(marker("late", other)), [])
        report.holds(f"{what}: the new record of its own site came", device.holds_bytes(marker("late", own)), lambda files: bool(files),
                     "a file with its content", never=[])
        report.equal(f"{what}: its change in its own site is at the hub", orders[f"{own}-1"].get(f"by_{device.name[2:]}"), device.name)
        report.equal(f"{what}: its change in the other site is not", orders[f"{other}-2"].get(f"by_{device.name[2:]}"), None)
        code, value, listed = told(device)
        report.holds(f"{what}: that change is kept and told with a code", code, lambda code: code in ("revoked", "forbidden"),
                     "revoked or forbidden", never="validation")
        report.equal(f"{what}: agentctl shows its value and its code", (marker("unsent", device.name) in value, str(code) in listed),
                     (True, True))
        report.equal(f"{what}: no alarm", device.alarms(), [])
    names = {item["id"] for item in json.loads(site.hub.run("devices", "--json"))}
    report.equal("the operator sees all devices", names, set(share))
    if site.hub.programs.has_grants:
        listed = site.hub.run("grants")
        report.equal("the operator sees all grants", [name for name, one in share.items() if f"{name}  site={one}" not in listed], [])


def at(orders, site):
    return {id: data for id, data in orders.items() if data["site"] == site}


def told(device):
    """The code of the change that the device may not make any more, and what agentctl prints of it and of the list."""
    for item in device.listed("/v1/mutations?state=rejected,held,failed"):
        if item["record_id"].endswith("-2"):
            shown = device.ctl("rejected", "show", item["id"])[1]
            return (item.get("problem") or {}).get("code"), shown, device.ctl("rejected", "list", "--json")[1]
    return "none", "", ""


def move(report, site, devices, share):
    """The office hands a record of the first site to the second one."""
    site.hub.publish("work_orders", {"s-1-5": {"site": "s-2", "title": "moved"}})
    site.settle()
    for device in devices:
        title = device.mirror("work_orders").get("s-1-5", {}).get("title")
        report.equal(f"{device.programs} agent {device.name}: a record that moved is at its new site only", title,
                     "moved" if share[device.name] == "s-2" else None)


def exchange(report, site, devices, share):
    """The first device moves to the other site: it has that one's records, and nothing else; its kept change can be sent then."""
    device, own = devices[0], share[devices[0].name]
    other, what = foreign(own), f"{device.programs} agent {device.name}"
    share[device.name] = other
    if site.hub.programs.has_grants:
        site.hub.run("grant", device.name, f"site={other}")
        site.hub.run("revoke", device.name, f"site={own}")
    else:
        site.hub.apply(settings(site, share))
    until(f"{device.name} has its new share", lambda: device.sync() and device.mirror("work_orders").keys() ==
          at(site.hub.records("work_orders"), other).keys())
    report.equal(f"{what}: after a move its mirror is its new share", device.mirror("work_orders"),
                 at(site.hub.records("work_orders"), other))
    kept = device.listed("/v1/mutations?state=rejected,held,failed")
    report.equal(f"{what}: its kept change is still there", [item["record_id"] for item in kept], [f"{other}-2"])
    device.must("POST", f"/v1/mutations/{kept[0]['id']}/retry", {})
    device.settle()
    report.equal(f"{what}: after the new grant its kept change reaches the hub",
                 site.hub.records("work_orders")[f"{other}-2"].get(f"by_{device.name[2:]}"), marker("unsent", device.name))
    report.equal(f"{what}: no alarm after the move", device.alarms(), [])


def without(report, hub, agents, engine=None):
    """Agents beside a hub that knows no scopes: it refuses such settings in words, and the agents go on."""
    with Site(hub, PLAIN, engine) as site:
        try:
            device = site.device(agents, "d-1")
            device.change("work_orders", "w-1", {"site": "s-1"})
            device.settle()
            site.hub.file.write_text(SCOPED + "devices: { d-1: { site: [s-1] } }\n")
            report.holds("the hub refuses settings with scopes, and names the key", hub.check_entities(site.hub.file),
                         lambda ended: ended[0] != 0 and "unknown key" in ended[1], "a refusal that names a key", never=(0, "good"))
            device.change("work_orders", "w-2", {"site": "s-2"})
            device.settle()
            report.equal("the agent goes on", device.mirror("work_orders"), {"w-1": {"site": "s-1"}, "w-2": {"site": "s-2"}})
            report.equal("agentctl status is well", device.ctl("status")[0], 0)
            report.equal("no alarm", device.alarms(), [])
        except Exception as error:
            report.broke(error, site.logs())
