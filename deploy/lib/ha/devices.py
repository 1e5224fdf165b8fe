"""The devices of deploy/ha-drill: some push and keep every acknowledged key, some pull and keep every record that they have seen.

They speak the protocol of deploy/api/PROTOCOL.md (A1 to A6) as an agent does, but for two things. They wait only PAUSE seconds after a
failure, to measure the silence of the hub and not the patience of an agent. They do not heal after a new history, so that a loss stays.
"""
import http.client, json, threading, time

PAUSE = 0.25
#: For one answer. The next attempt has the same keys.
PATIENCE = 15.0
CREATES = 5


class Device(threading.Thread):
    """A device with a token, and what it has noticed."""

    def __init__(self, name, token, address):
        super().__init__(name=name, daemon=True)
        self.token, self.address, self.connection = token, address, None
        self.epochs, self.answers, self.mistakes = set(), {}, []
        self.receipt = self.epoch = None
        #: Begun and not known to have ended well; nothing of it is acknowledged.
        self.is_open, self.is_paused, self.is_ended = False, False, False

    def call(self, path, body):
        """The answer to a request, or None if there was none that can be used."""
        headers = {"Sync-Version": "1", "Authorization": f"Bearer {self.token}", "Sync-Device": self.name, "Sync-Replica": f"r-{self.name}",
                   "Content-Type": "application/json"}
        if self.epoch and path.endswith("push"): headers["Sync-Epoch"] = self.epoch
        if self.receipt: headers["Sync-Receipt"] = self.receipt
        try:
            if self.connection is None: self.connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
            self.connection.request("POST", path, json.dumps(body), headers)
            answer = self.connection.getresponse()
            text, status = answer.read(), answer.status
        except (OSError, http.client.HTTPException):
            self.connection and self.connection.close()
            self.connection = None
            return self.failed("no answer")
        self.receipt = answer.headers.get("Sync-Receipt", self.receipt)
        if (epoch := answer.headers.get("Sync-Epoch")) and epoch != self.epoch:
            self.epochs.add(epoch)
            self.epoch, self.receipt = epoch, answer.headers.get("Sync-Receipt")
        if status == 200: return json.loads(text)
        # 410 is a new history, which the judge counts. Anything else below 500 says that the hub takes a failure for the device's.
        if status < 500 and status != 410: self.mistakes.append(f"{self.name}: {path}: status {status}: {text[:200]!r}")
        return self.failed(str(status))

    def failed(self, what):
        self.answers[what] = self.answers.get(what, 0) + 1
        time.sleep(PAUSE)

    def run(self):
        try:
            while not self.is_ended:
                if self.is_paused and not self.is_open: time.sleep(0.02)
                else: self.step()
        except Exception as error:  # A thread must not end without a word.
            self.mistakes.append(f"{self.name}: {type(error).__name__}: {error}")


class Pusher(Device):
    """Makes records, writes one of its own again and again, and counts in one that all devices count in."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sent = self.round = 0
        self.push, self.begun = None, 0.0
        #: (begin of the first attempt, acknowledgement) of each push, by the monotonic clock.
        self.times = []
        #: Key of each acknowledged mutation, with entity and record.
        self.acknowledged = {}
        self.hlc = 0

    def mutation(self, entity, record, action, **more):
        self.sent += 1
        self.hlc = max(self.hlc + 1, int(time.time() * 1000) << 16)
        return {"seq": self.sent, "idempotency_key": f"k-{self.name}-{self.sent}", "entity": entity, "record_id": record, "action": action,
                "base_version": 0, "hlc": f"{self.hlc >> 16:012x}-{self.hlc & 0xffff:04x}-{abs(hash(self.name)) & 0xffffffff:08x}", **more}

    def step(self):
        if self.push is None:
            self.round += 1
            self.push = [self.mutation("parts", f"{self.name}-{self.round}-{n}", "create", data={"round": self.round, "note": "x" * 120})
                         for n in range(CREATES)]
            self.push.append(self.mutation("states", self.name, "create" if self.round == 1 else "update", data={"round": self.round}))
            self.push.append(self.mutation("counters", "all", "update", ops=[{"field": "n", "op": "inc", "value": 1}]))
            self.is_open, self.begun = True, time.monotonic()
        answer = self.call("/v1/sync/push", {"acked_seq": len(self.acknowledged), "max_sent_seq": self.sent, "mutations": self.push})
        if answer is None: return
        left, by_key = [], {result["idempotency_key"]: result for result in answer["results"]}
        for mutation in self.push:
            result = by_key.get(mutation["idempotency_key"], {})
            status = result.get("status")
            if status == "accepted" or status == "duplicate" and result.get("original") == "accepted":
                self.acknowledged[mutation["idempotency_key"]] = (mutation["entity"], mutation["record_id"])
            elif status == "retry": left.append(mutation)
            else: self.mistakes.append(f"{self.name}: {mutation['idempotency_key']}: {json.dumps(result)[:300]}")
        self.push = left or None
        if left: return self.failed("retry")
        self.times.append((self.begun, time.monotonic()))
        self.is_open = False


class Puller(Device):
    """Follows three entities from the beginning."""

    ENTITIES = ("parts", "states", "counters")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cursors = dict.fromkeys(self.ENTITIES)
        self.seen, self.head = {}, 0

    def step(self):
        streams = [{"entity": entity, "cursor": cursor} for entity, cursor in self.cursors.items()]
        answer = self.call("/v1/sync/pull", {"streams": streams, "limit": 1000, "max_sent_seq": 0})
        if answer is None: return
        for failure in answer.get("errors", []):
            # After a new history a device lists everything afresh, and versions begin anew.
            self.failed(failure["problem"]["type"])
            self.cursors[failure["entity"]] = None
            self.seen = {place: seen for place, seen in self.seen.items() if place[0] != failure["entity"]}
        for stream in answer["streams"]:
            self.cursors[stream["entity"]] = stream["cursor"]
            for record in stream["records"]:
                place = (stream["entity"], record["id"])
                version, data = self.seen.get(place, (0, None))
                if record["version"] < version:
                    self.mistakes.append(f"{self.name}: {place} went from version {version} to {record['version']}")
                self.seen[place] = (record["version"], record["data"])
        is_more = any(stream["has_more"] for stream in answer["streams"]) or answer.get("errors")
        if not is_more:
            self.head = max(self.head, answer["head"])
            time.sleep(PAUSE)
