"""A hub, and a PostgreSQL server for its database."""
import json, os, pathlib, pwd, re, shutil, signal, subprocess, tempfile, urllib.request

from processes import Process, tail
from programs import Failure


class Hub:
    """A hub in a folder, on SQLite or on a PostgreSQL database."""

    def __init__(self, programs, folder, entities, database=None, environment=None):
        self.programs, self.folder, self.database = programs, pathlib.Path(folder), database
        self.environment, self.process, self.port, self.extra = environment or {}, None, 0, ()
        self.folder.mkdir(mode=0o700)
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        self.file = self.folder.parent / "entities.yaml"
        self.file.write_text(entities)

    @property
    def place(self):
        return ["--data", str(self.data)] + (["--database", self.database] if self.database else [])

    def start(self):
        status = self.try_to_start()
        if status is not None:
            raise Failure(f"the {self.programs} hub does not start, status {status}: {tail(self.folder / 'log', 3)}")

    def try_to_start(self):
        """The exit status of a hub that refuses to start; `None` when it serves."""
        words = [self.programs.path("agenthub"), "serve", *self.place, "--listen", f"127.0.0.1:{self.port}", "--entities", str(self.file)]
        self.process = Process([*words, *self.extra], self.folder / "log", self.environment, wait_for_line=True)
        if "127.0.0.1:" not in self.process.line:
            status = self.process.end(signal.SIGKILL)
            self.process = None
            return status
        self.port = int(self.process.line.rpartition(":")[2])
        return None

    def stop(self, how=signal.SIGTERM):
        if self.process: self.process.end(how)
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def restart(self, programs=None):
        self.stop()
        self.programs = programs or self.programs
        self.start()

    def is_ready(self):
        try: return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10).status == 200
        except OSError: return False

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
        self._run("psql", "--host", self.folder, "--username", "hub", "--dbname", "postgres", "--command",
                  f"CREATE SCHEMA hub_{self.count}")
        return f"postgres:///postgres?host={self.folder}&user=hub&options=-csearch_path%3Dhub_{self.count}"

    def schema(self, database):
        """The version of a hub's tables, and the oldest version whose programs may use them."""
        line = self._run("psql", "--dbname", database, "--no-align", "--tuples-only", "--command",
                         "SELECT version, oldest_reader FROM hub_schema")
        version, oldest = line.split("|")
        return int(version), int(oldest)

    def dump(self, database):
        """Tables, rows and sequences as text: the same text as long as nothing has changed."""
        text = self._run("pg_dump", "--dbname", database, "--schema", database.rpartition("%3D")[2])
        # Newer programs of the server write a random word on two lines.
        return re.sub(r"(?m)^\\(un)?restrict .*$", "", text)

    def close(self):
        self._run("pg_ctl", "--pgdata", f"{self.folder}/data", "--mode", "immediate", "--wait", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
