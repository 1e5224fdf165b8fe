"""A device with its agent, as apps and people see it."""
import http.client, json, os, pathlib, random, signal, socket, subprocess

from lines import Line
from processes import Process, tail, until
from programs import Failure


class Device:
    """An agent with its folder and its line."""

    def __init__(self, programs, name, hub, folder, settings="", entities="", environment=None):
        self.programs, self.name, self.hub, self.folder = programs, name, hub, pathlib.Path(folder)
        self.settings, self.entities, self.environment, self.process = settings, entities, environment or {}, None
        self.folder.mkdir(mode=0o700)
        self.socket = str(self.folder / "s")
        self.line = Line(hub.port)
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(hub.token(name))

    @property
    def state(self):
        return self.folder / "state"

    def start(self):
        # Several deaths in a row would let the agent start without its sync.
        (self.state / "starts").unlink(missing_ok=True)
        (self.folder / "agentd.yaml").write_text(
            f'hub: {{ url: "http://127.0.0.1:{self.line.port}", device: {self.name}, token_file: "{self.folder}/token" }}\n'
            f'socket: {{ path: "{self.socket}", mode: "0600" }}\n'
            f'access:\n  - {{ user: "{os.geteuid()}", role: admin, app: stand, rate: 100000 }}\n'
            f'store: {{ path: "{self.state}" }}\n'
            f"sync: {{ debounce: 0s, max_backoff: 1s }}\n{self.settings}{self.entities}")
        words = [self.programs.path("agentd"), "--config", str(self.folder / "agentd.yaml")]
        self.process = Process(words, self.folder / "log", self.environment)
        until(f"the {self.programs} agent {self.name} serves", self._serves)

    def _serves(self):
        if self.process.child.poll() is not None:
            raise Failure(f"the {self.programs} agent ended, status {self.process.child.returncode}: {tail(self.folder / 'log', 3)}")
        try: return self.ask("GET", "/v1/status")[0] == 200
        except OSError: return False
        except http.client.HTTPException: return False

    def stop(self, how=signal.SIGTERM):
        if self.process: self.process.end(how)
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def restart(self, programs=None):
        self.stop()
        self.programs = programs or self.programs
        self.start()

    # --- What an app asks ---

    def ask(self, method, path, body=None, **fields):
        """Status and body of an answer."""
        connection = SocketConnection(self.socket)
        try:
            headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}
            connection.request(method, path, None if body is None else json.dumps(body), headers if body is not None else {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def must(self, method, path, body=None, **fields):
        status, answer = self.ask(method, path, body, **fields)
        if status not in (200, 201, 202): raise Failure(f"{self.name}: {method} {path}: {status} {json.dumps(answer)[:400]}")
        return answer

    def write(self, body, key):
        """One change or one atomic list; repeated with the same key until it is answered, as an app does it."""
        def tried():
            try: status, answer = self.ask("POST", "/v1/mutations", body, Idempotency_Key=key)
            except (OSError, http.client.HTTPException): return None  # The agent has died, and is started again by the scenario.
            if status in (200, 201): return status, answer
            if status in (429, 500, 503, 507): return None
            raise Failure(f"{self.name}: {json.dumps(body)[:200]}: {status} {json.dumps(answer)[:400]}")
        return until(f"{self.name} takes {key}", tried)

    def change(self, entity, id, data=None, action="upsert", key=None, **more):
        body = {"entity": entity, "record_id": id, "action": action, **({"data": data} if data is not None else {}), **more}
        return self.write(body, key or f"{self.name}-{random.getrandbits(64):x}")[1]

    def status(self):
        return self.must("GET", "/v1/status")

    def counts(self):
        """Mutations by state; those that wait to be sent as `pending`."""
        outbox = self.status()["outbox"]
        return {**{name: value for name, value in outbox.items() if isinstance(value, int)}, "pending": sum(outbox["pending"].values())}

    def listed(self, path):
        """All items of a list, page by page."""
        items, cursor = [], ""
        while True:
            page = self.must("GET", f"{path}{'&' if '?' in path else '?'}limit=500{cursor}")
            items += page["items"]
            if not page.get("next"): return items
            cursor = f"&cursor={page['next']}"

    def mirror(self, entity):
        """Documents by id, as apps see them."""
        return {item["id"]: item["data"] for item in self.listed(f"/v1/records/{entity}")}

    def sync(self):
        return self.must("POST", "/v1/sync", {"force": True, "wait": True})

    def settle(self):
        """Syncs until nothing waits to be sent, nothing is under way, and one more cycle has brought nothing."""
        def settled():
            answer = self.sync()
            if answer.get("result") != "ok": return False
            counts = self.counts()
            return counts["pending"] == counts["in_flight"] == 0 and answer.get("pulled") == 0 == answer.get("pushed")
        until(f"{self.name} ({self.programs}) has sent and read everything", settled, 60)

    def ctl(self, *words):
        """Exit status and all output of agentctl."""
        ended = subprocess.run([self.programs.path("agentctl"), *words, "--socket", self.socket], capture_output=True, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    def alarms(self):
        return [alarm["code"] for alarm in self.status().get("alarms") or []]

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def holds_bytes(self, text):
        """Files of the state folder that contain the text, whatever they are."""
        found = [path for path in self.state.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
        return sorted(str(path.relative_to(self.state)) for path in found)


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("agent", timeout=90)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)
