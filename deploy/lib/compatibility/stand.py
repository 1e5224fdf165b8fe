"""A hub, devices and the lines between them, in a temporary folder. Each program can be one of another commit."""
import hashlib, http.client, json, os, pathlib, pwd, random, shutil, signal, socket, subprocess, tempfile, threading, time

from programs import Failure

#: Only ends a scenario that would otherwise wait for ever.
PATIENCE = 30.0


def until(what, ask, seconds=PATIENCE):
    """Asks until the answer counts as true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer: return answer
        if time.monotonic() > end: raise Failure(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)


class Process:
    """One program that stays, with its log."""

    def __init__(self, words, log, environment, wait_for_line=False):
        self.log = log
        with open(log, "ab") as file:
            self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if wait_for_line else file, stderr=file,
                                          env={**os.environ, **environment})
        self.line = self.child.stdout.readline().decode() if wait_for_line else ""

    def end(self, how):
        """Its status. Ends it by force if it does not end within the patience."""
        if self.child.poll() is None: self.child.send_signal(how)
        try: self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise Failure(f"{self.child.args[0]} did not end within {PATIENCE:.0f} s")
        if self.child.stdout: self.child.stdout.close()
        return self.child.returncode


class Line:
    """The way of one device to its hub. It counts bytes, can be cut, and can swallow answers or cut an upload in the middle."""

    def __init__(self, port):
        self.target, self.up, self.down = port, 0, 0
        self.is_cut = self.swallows = False
        #: After so many bytes more in the direction of the hub the line is cut.
        self.left = None
        self.pairs, self.lock = set(), threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, is_cut=True):
        self.is_cut = is_cut
        if is_cut: self._close_all()

    def close(self):
        self.cut()
        self.server.close()

    def _close_all(self):
        with self.lock: pairs, self.pairs = self.pairs, set()
        for pair in pairs: shut(*pair)

    def _accept(self):
        while True:
            try: near, _ = self.server.accept()
            except OSError: return  # The line was closed.
            if self.is_cut:
                shut(near)
                continue
            try: far = socket.create_connection(("127.0.0.1", self.target), timeout=PATIENCE)
            except OSError:
                shut(near)  # The hub is away.
                continue
            far.settimeout(None)
            with self.lock: self.pairs.add((near, far))
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source, target, is_up):
        try:
            while data := source.recv(16_384):
                if is_up:
                    self.up += len(data)
                    if self.left is not None:
                        self.left -= len(data)
                        if self.left <= 0: self.left, self.is_cut = None, True
                else:
                    self.down += len(data)
                    if self.swallows: break
                target.sendall(data)
                if self.is_cut: break
        except OSError:
            pass  # One of both sides has ended; the other one must, too.
        shut(source, target)


def shut(*sockets):
    for one in sockets:
        try: one.shutdown(socket.SHUT_RDWR)
        except OSError: pass  # It is closed already.
        one.close()


class Hub:
    """A hub in a folder, on SQLite or on a PostgreSQL database."""

    def __init__(self, programs, folder, entities, database=None, environment=None):
        self.programs, self.folder, self.database = programs, pathlib.Path(folder), database
        self.environment, self.process, self.port, self.extra = environment or {}, None, 0, ()
        self.folder.mkdir(mode=0o700)
        self.file = self.folder.parent / "entities.yaml"
        self.file.write_text(entities)

    @property
    def place(self):
        return ["--data", str(self.folder / "data")] + (["--database", self.database] if self.database else [])

    def start(self):
        words = [self.programs.path("agenthub"), "serve", *self.place, "--listen", f"127.0.0.1:{self.port}", "--entities", str(self.file)]
        self.process = Process([*words, *self.extra], self.folder / "log", self.environment, wait_for_line=True)
        if "127.0.0.1:" not in self.process.line:
            status = self.process.end(signal.SIGKILL)
            self.process = None
            raise Failure(f"the {self.programs} hub does not start, status {status}: {tail(self.folder / 'log', 3)}")
        self.port = int(self.process.line.rpartition(":")[2])

    def stop(self, how=signal.SIGTERM):
        if self.process: self.process.end(how)
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def restart(self, programs=None):
        self.stop()
        self.programs = programs or self.programs
        self.start()

    def run(self, *words):
        """A command of the hub's programs; its output."""
        ended = subprocess.run([self.programs.path("agenthub"), *words, *self.place], capture_output=True, text=True,
                               env={**os.environ, **self.environment})
        if ended.returncode: raise Failure(f"agenthub {' '.join(words)}: status {ended.returncode}: {ended.stdout}{ended.stderr}".strip())
        return ended.stdout

    def token(self, device):
        return self.run("token", "add", device)

    def apply(self, entities):
        """Lets other settings count, as the hub's release does it: by a command, or by a restart."""
        self.file.write_text(entities)
        if self.programs.has_apply: return self.run("entities", "apply", str(self.file))
        if self.process: self.restart()
        return ""

    def publish(self, entity, records):
        """Records by id, as the office writes them. Works beside a running hub where its release has it, else around a restart."""
        file = self.folder / "published"
        file.write_text("".join(json.dumps({"id": id, "data": data}) + "\n" for id, data in records.items()))
        is_running = self.process is not None
        if is_running and not self.programs.has_apply: self.stop()
        self.run("publish", entity, str(file))
        if is_running and not self.process: self.start()

    def records(self, entity):
        """The hub's documents by id."""
        return {line["id"]: line["data"] for line in map(json.loads, filter(None, self.run("export", entity).split("\n")))}

    def stats(self):
        return json.loads(self.run("stats", "--json"))

    def applied(self):
        return self.stats()["mutations"]["applied"]

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace")


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

    def settle(self, blobs=True):
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


class Site:
    """One hub and its devices; everything ends and goes with it."""

    def __init__(self, hub_programs, entities, engine=None, environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="compat-"))
        self.devices, self.environment = {}, environment or {}
        database = engine.new_database() if engine else None
        self.hub = Hub(hub_programs, self.folder / "hub", entities, database, self.environment)
        (self.hub.folder / "data").mkdir(mode=0o700)
        self.hub.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for device in self.devices.values():
            if device.process: device.process.end(signal.SIGKILL)
            device.line.close()
        self.hub.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def device(self, programs, name, **more):
        device = Device(programs, name, self.hub, self.folder / name, environment=self.environment, **more)
        self.devices[name] = device
        device.start()
        return device

    def settle(self, *devices):
        """Twice: the first round sends, the second one reads what the others have sent."""
        for _ in range(2):
            for device in devices or self.devices.values(): device.settle()

    def logs(self):
        places = [self.hub.folder / "log", *(device.folder / "log" for device in self.devices.values())]
        return "\n".join(f"--- {place.parent.name}\n{tail(place, 12)}" for place in places if place.exists())


class Postgres:
    """A PostgreSQL server of the tool's own in a temporary folder, reached by a Unix socket."""

    @staticmethod
    def programs():
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
        return found[-1].parent if found else None

    def __init__(self):
        self.bin, self.count = self.programs(), 0
        self.folder = tempfile.mkdtemp(prefix="pg-")
        self.as_server = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.as_server = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._run("initdb", "--pgdata", f"{self.folder}/data", "--username", "hub", "--auth", "trust", "--encoding", "UTF8", "--locale",
                  "C.UTF-8", "--no-sync")
        settings = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=100"
        self._run("pg_ctl", "--pgdata", f"{self.folder}/data", "--log", f"{self.folder}/log", "--wait", "--options", settings, "start")

    def _run(self, name, *words):
        ended = subprocess.run([*self.as_server, str(self.bin / name), *words], stdout=subprocess.PIPE if name != "pg_ctl" else
                               subprocess.DEVNULL, stderr=subprocess.STDOUT if name != "pg_ctl" else subprocess.DEVNULL, text=True, cwd="/")
        if ended.returncode: raise Failure(f"{name}: status {ended.returncode}: {ended.stdout}")
        return ended.stdout

    def new_database(self):
        self.count += 1
        self._run("psql", "--host", self.folder, "--username", "hub", "--dbname", "postgres", "--command", f"CREATE SCHEMA hub_{self.count}")
        return f"postgres:///postgres?host={self.folder}&user=hub&options=-csearch_path%3Dhub_{self.count}"

    def close(self):
        self._run("pg_ctl", "--pgdata", f"{self.folder}/data", "--mode", "immediate", "--wait", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def tail(path, lines):
    try: return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error: return str(error)


def digest(folder):
    """One checksum for each file below a folder, by its path."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for path in sorted(folder.rglob("*")) if path.is_file()}
