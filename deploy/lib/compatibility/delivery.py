"""Plain delivery: changes of every kind over deaths, cut lines and lost answers, each exactly once."""
import http.client, random, threading

import lockout
from stand import Site

ENTITIES = """\
entities:
  readings: { kind: event }
  work_orders: { kind: record, fields: { tally: counter, peak: max, tags: set } }
"""
#: Of the changes and troubles.
seed = 1
SHARED = [f"shared-{number}" for number in range(4)]


class Expected:
    """What the hub must hold at the end, computed from nothing but the changes that were acknowledged."""

    def __init__(self):
        self.orders = {id: {"title": id} for id in SHARED}
        self.readings = {}

    def set(self, id, data):
        self.orders.setdefault(id, {}).update(data)

    def add(self, id, value):
        self.orders[id]["tally"] = self.orders[id].get("tally", 0) + value

    def raise_to(self, id, value):
        self.orders[id]["peak"] = max(self.orders[id].get("peak", value), value)

    def tag(self, id, value):
        self.orders[id].setdefault("tags", []).append(value)


class Author:
    """One device's app. Each step makes one change, and notes it in what is expected."""

    def __init__(self, device, expected, generator):
        self.device, self.expected, self.random = device, expected, generator
        self.own, self.number, self.replies = [], 0, 0

    def name(self):
        self.number += 1
        return f"{self.device.name}-{self.number}"

    def step(self):
        name = self.name()
        body = self.random.choice([self.create, self.create, self.update, self.update, self.count, self.count, self.operate, self.delete,
                                   self.group, self.read])(name)
        if self.random.random() < 0.15: self.die_within(body, name)
        self.device.write(body, name)
        # An app that has lost the answer asks again.
        if self.random.random() < 0.3 and self.device.write(body, name)[0] == 200: self.replies += 1

    def die_within(self, body, key):
        """The agent dies while the request is on its way: whether it was stored is not known."""
        thread = threading.Thread(target=self._ask_once, args=(body, key))
        thread.start()
        if self.random.random() < 0.5: thread.join(0.002 * self.random.random())
        self.device.kill()
        thread.join()
        self.device.start()

    def _ask_once(self, body, key):
        try: self.device.ask("POST", "/v1/mutations", body, Idempotency_Key=key)
        except (OSError, http.client.HTTPException): pass  # It has died over it, which is the purpose.

    def create(self, name):
        self.own.append(name)
        data = {"title": f"order {name}", "n": self.number, "price": "10.50"}
        self.expected.set(name, data)
        return {"entity": "work_orders", "record_id": name, "action": "create", "data": data}

    def update(self, name):
        id = self.random.choice(self.own) if self.own and self.random.random() < 0.5 else self.random.choice(SHARED)
        data = {f"by_{self.device.name.replace('-', '_')}": name}
        self.expected.set(id, data)
        return {"entity": "work_orders", "record_id": id, "action": self.random.choice(["update", "upsert"]), "data": data}

    def count(self, name):
        id, value = self.random.choice(SHARED), self.random.randint(-3, 9)
        self.expected.add(id, value)
        return {"entity": "work_orders", "record_id": id, "action": "update", "ops": [{"field": "tally", "op": "inc", "value": value}]}

    def operate(self, name):
        id, value = self.random.choice(SHARED), self.random.randint(0, 1000)
        self.expected.raise_to(id, value)
        self.expected.tag(id, name)
        return {"entity": "work_orders", "record_id": id, "action": "update",
                "ops": [{"field": "peak", "op": "max", "value": value}, {"field": "tags", "op": "add", "value": name}]}

    def delete(self, name):
        if not self.own: return self.create(name)
        id = self.own.pop(self.random.randrange(len(self.own)))
        self.expected.orders.pop(id)
        return {"entity": "work_orders", "record_id": id, "action": "delete"}

    def group(self, name):
        members = [self.create(f"{name}-a"), self.create(f"{name}-b"), self.count(name)]
        return {"atomic": True, "mutations": members}

    def read(self, name):
        data = {"value": self.number, "unit": "bar"}
        self.expected.readings[name] = data
        return {"entity": "readings", "record_id": name, "action": "create", "data": data}


def run(report, hub_programs, fleet, engine=None, replica=None, steps=40):
    """fleet: the programs of each device. replica: those of a second hub over the same database, between which the devices change.

    When the second hub turns the database into one that the first hub must not use, the first hub is replaced, as the manual says.
    """
    generator = random.Random(seed)
    with Site(hub_programs, ENTITIES, engine) as site:
        try:
            devices = [site.device(programs, f"d-{number}") for number, programs in enumerate(fleet, 1)]
            site.hub.publish("work_orders", {id: {"title": id} for id in SHARED})
            site.settle()
            expected = Expected()
            authors = [Author(device, expected, generator) for device in devices]
            if replica: lockout.second_hub(report, site, engine, replica, ENTITIES, authors)
            for step in range(steps):
                for author in authors: author.step()
                trouble(generator, site, step)
            calm(site)
            if replica: report.equal("both replicas say that they are ready", [hub.is_ready() for hub in site.hubs], [True, True])
            site.settle()
            judge(report, site, expected, authors)
        except Exception as error:
            report.broke(error, site.logs())


def trouble(generator, site, step):
    """Sometimes a line is cut or comes back, answers get lost, and a program dies."""
    for device in site.devices.values():
        chance = generator.random()
        if device.line.is_cut: device.line.cut(chance > 0.4)
        elif chance < 0.15: device.line.cut()
        elif chance < 0.3: device.line.swallows = True
        else: device.line.swallows = False
        if generator.random() < 0.06:
            device.kill()
            device.start()
        device.line.target = generator.choice(site.hubs).port
    if step % 9 == 4:
        hub = generator.choice(site.hubs)
        hub.kill()
        hub.start()


def calm(site):
    for device in site.devices.values():
        device.line.cut(False)
        device.line.swallows = False


def ordered(documents):
    """Sets have no order."""
    return {id: {name: sorted(value) if name == "tags" else value for name, value in data.items()} for id, data in documents.items()}


def judge(report, site, expected, authors):
    report.equal("the hub's work orders are those that were written", ordered(site.hub.records("work_orders")), ordered(expected.orders))
    report.equal("the hub's readings are those that were written", site.hub.records("readings"), expected.readings)
    done = {name: device.counts()["done"] for name, device in site.devices.items()}
    applied = {item["id"]: item["mutations"]["applied"] for item in site.hub.stats()["devices"]}
    report.equal("each change that an agent calls done took effect once at the hub", applied, done)
    for device in site.devices.values():
        what = f"{device.programs} agent {device.name}"
        report.equal(f"{what}: the mirror is the hub's", ordered(device.mirror("work_orders")), ordered(site.hub.records("work_orders")))
        counts = device.counts()
        left = {state: counts[state] for state in ("pending", "in_flight", "conflicted", "rejected", "failed", "held", "expired")}
        report.equal(f"{what}: nothing is left over", left, dict.fromkeys(left, 0))
        report.equal(f"{what}: no alarm", device.alarms(), [])
    report.holds("repeated requests were answered as repeats", sum(author.replies for author in authors), lambda count: count > 0,
                 "at least one repeat", never=0)
