"""The machines of deploy/ha-drill: network and mount namespaces on one bridge, with the programs and the files of deploy/ha.

All of it lives in the process and network namespaces that the drill was started in, and ends with them.
"""
import json, os, pathlib, pwd, shlex, signal, subprocess, time, urllib.error, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATABASES = {"db1": "192.0.2.11", "db2": "192.0.2.12", "db3": "192.0.2.13"}
HUBS = {"hub1": "192.0.2.21", "hub2": "192.0.2.22"}
OUTSIDE = "192.0.2.1"  # the devices, their balancer, and the drill itself
DEVICES_PORT, HUB_PORT = 7430, 7433
IS_ROOT = os.environ.get("HA_DRILL_ROOT") == "1"
PASSWORD = "of-the-drill"


def run(*words, **options):
    """Runs a command to its end. Its output is in the error if it fails."""
    ended = subprocess.run(words, capture_output=True, text=True, **options)
    if ended.returncode:
        output = (ended.stdout + ended.stderr).strip()[-600:]
        raise RuntimeError(f"{shlex.join(words)}: status {ended.returncode}: {output}")
    return ended.stdout


def until(what, ask, seconds, pause=0.1):
    """Asks until the answer counts as true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        if answer := ask(): return answer
        if time.monotonic() > end: raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(pause)


def ask(url, body=None, method=None, seconds=1.0):
    """Status and text of an answer; status 0 when there is none."""
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer: return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal: return refusal.code, refusal.read().decode(errors="replace")
    except OSError: return 0, ""


class Machine:
    """A network namespace with an address, and folders of its own where Debian's packages have theirs.

    The folders are in memory. A kill takes nothing from the kernel, so a disk would only add its own delays; power cuts are not tried.
    """

    def __init__(self, site, name, address):
        self.site, self.name, self.address, self.cuts = site, name, address, set()
        self.folder = site.folder / name
        self.folder.mkdir()
        mounts = ["mount -t tmpfs tmpfs /run"]
        if name in DATABASES:
            mounts.append("mkdir -m 2775 /run/postgresql")
            if IS_ROOT: mounts.append("chown postgres:postgres /run/postgresql")
            for place in ("/var/lib/postgresql", "/var/lib/etcd"):
                mounts.append(f"mount -t tmpfs tmpfs {place}")
                if IS_ROOT: mounts.append(f"chown postgres:postgres {place}")
        script = " && ".join(mounts + ["ip link set lo up", "echo ready", "exec sleep infinity"])
        self.keeper = subprocess.Popen(["unshare", "--mount", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n": raise RuntimeError(f"{name}: its namespaces cannot be made")
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(self.keeper.pid))
        run("ip", "link", "set", name, "master", "bridge", "up")
        self.inside("ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        self.network = os.readlink(f"/proc/{self.keeper.pid}/ns/net")

    def words(self, words, as_server=False):
        """The command that runs words on this machine, as the user of PostgreSQL if asked."""
        enter = ["nsenter", "--target", str(self.keeper.pid), "--mount", "--net", "--"]
        user, group = self.site.server.pw_uid, self.site.server.pw_gid
        if as_server and IS_ROOT: enter += ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        elif as_server: enter += ["unshare", "--user", f"--map-user={user}", f"--map-group={group}", "--"]
        return enter + list(words)

    def inside(self, *words, as_server=False, **options):
        return run(*self.words(words, as_server), cwd="/", **options)

    def start(self, *words, as_server=False, output=None, **environment):
        """Starts a program that stays. Its log is beside the others."""
        log = open(self.site.logs / f"{self.name}-{pathlib.Path(words[0]).name}.log", "ab")
        paths = {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/var/lib/postgresql"}
        return subprocess.Popen(self.words(words, as_server), env={**paths, **environment}, stdin=subprocess.DEVNULL, stdout=output or log,
                                stderr=log, cwd="/", start_new_session=True)

    def processes(self, word=""):
        """Ids of the living processes of this machine whose command has the word."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(name) == self.keeper.pid or os.readlink(f"/proc/{name}/ns/net") != self.network: continue
                command = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError: continue  # It has just ended.
            if command and word in command: found.append(int(name))
        return found

    def signal(self, number, word=""):
        for pid in self.processes(word):
            try: os.kill(pid, number)
            except ProcessLookupError: pass  # It has just ended.

    def kill(self, word=""):
        """Kills at once, until no process is left: children may have been made meanwhile."""
        def is_dead():
            self.signal(signal.SIGKILL, word)
            return not self.processes(word)
        until(f"{self.name} is dead", is_dead, 20, 0.02)
        # A socket that was left over would keep PostgreSQL from starting on a machine that really lost its power: /run is empty then.
        if not word and self.name in DATABASES: self.inside("sh", "-c", "rm -f /run/postgresql/.s.*")


class Site:
    """Three databases, two hubs, and the balancer of the devices."""

    def __init__(self, folder, agenthub, multi_host=False, etcd3=False):
        self.folder, self.agenthub, self.multi_host = folder, agenthub, multi_host
        self.server = pwd.getpwnam("postgres")
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.configuration = {name: (ROOT / "deploy/ha" / name).read_text() for name in
                              ("patroni.yml", "patroni.env", "etcd.env", "haproxy.cfg", "agenthub")}
        if etcd3: self.configuration["patroni.yml"] = self.configuration["patroni.yml"].replace("\netcd:\n", "\netcd3:\n")
        self.programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda found: int(found.parts[4])).parent
        self.started = {}
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "address", "add", f"{OUTSIDE}/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        self.machines = {name: Machine(self, name, address) for name, address in {**DATABASES, **HUBS}.items()}
        (folder / "pgpass").write_text(f"*:*:*:hub:{PASSWORD}\n")
        (folder / "pgpass").chmod(0o600)

    # --- Databases ---

    def own(self, text, name):
        """A shipped file that is meant for the first machine, as another machine has it."""
        return text.replace("192.0.2.11:", f"{DATABASES[name]}:").replace("=db1\n", f"={name}\n")

    def settings(self, name, file):
        lines = [line for line in self.configuration[file].splitlines() if "=" in line and not line.startswith("#")]
        apart = [line for line in lines if not line.startswith("ETCD_INITIAL_CLUSTER=")]
        common = [line for line in lines if line not in apart]
        return dict(line.split("=", 1) for line in self.own("\n".join(apart) + "\n", name).splitlines() + common)

    def start_database(self, name):
        machine = self.machines[name]
        machine.start("/usr/bin/etcd", as_server=True, ETCD_DATA_DIR="/var/lib/etcd/default", **self.settings(name, "etcd.env"))
        machine.inside("sh", "-c", "cat > /run/patroni.yml; chmod 644 /run/patroni.yml", input=self.configuration["patroni.yml"])
        machine.start("/usr/bin/patroni", "/run/patroni.yml", as_server=True, PATRONI_POSTGRESQL_BIN_DIR=str(self.programs),
                      **self.settings(name, "patroni.env"))

    def members(self, asked=None):
        """The members as Patroni lists them; none when no machine answers."""
        for name in asked or DATABASES:
            status, text = ask(f"http://{DATABASES[name]}:8008/cluster")
            if status == 200: return json.loads(text)["members"]
        return []

    def leader(self, but=None):
        """The machine that says of itself that it leads; None when there is none."""
        return next((name for name in DATABASES if name != but and ask(f"http://{DATABASES[name]}:8008/primary")[0] == 200), None)

    def await_leader_but(self, name):
        until(f"a leader in the place of {name}", lambda: self.leader(but=name), 90)

    def standby(self):
        """The standby that has every acknowledged change."""
        return next((member["name"] for member in self.members() if member["role"] == "sync_standby"), None)

    def is_whole(self, is_synchronous):
        """All three run on one timeline, none is behind, and one standby is the synchronous one."""
        members = self.members()
        roles = sorted(member["role"] for member in members)
        if roles != sorted(["leader", "sync_standby" if is_synchronous else "replica", "replica"]): return False
        if len({member.get("timeline") for member in members}) != 1: return False
        if not all(member["state"] in ("running", "streaming") and member.get("lag", 0) == 0 for member in members): return False
        # What etcd has of a member that was cut off is of before the cut.
        try: return self.sql("SELECT count(*) FROM pg_stat_replication") == ["2"]
        except (RuntimeError, subprocess.SubprocessError): return False

    def sql(self, query, seconds=20):
        """The lines of an answer of the present leader; the drill is a client like the hubs."""
        url = f"postgres://hub@{','.join(DATABASES.values())}/hub?target_session_attrs=read-write&connect_timeout=2"
        return run("psql", url, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--field-separator=\t", "--command", query,
                   env={**os.environ, "PGPASSFILE": str(self.folder / "pgpass")}, timeout=seconds).splitlines()

    # --- Hubs ---

    def database_url(self):
        lines = self.configuration["agenthub"].splitlines()
        line = next(line for line in lines if line.startswith("#   postgres://") == self.multi_host and "postgres://" in line)
        url = next(word for word in shlex.split(line.split("AGENTHUB_OPTIONS=")[-1].strip('"#')) if word.startswith("postgres://"))
        return url.replace("/etc/agenthub/", f"{self.folder}/")

    def start_hub(self, name):
        machine = self.machines[name]
        if not self.multi_host:
            (machine.folder / "haproxy.cfg").write_text(self.configuration["haproxy.cfg"])
            if not machine.processes("haproxy"): machine.start("/usr/sbin/haproxy", "-db", "-f", str(machine.folder / "haproxy.cfg"))
        line = next(line for line in self.configuration["agenthub"].splitlines() if line.startswith("AGENTHUB_OPTIONS="))
        options = shlex.split(line.split("=", 1)[1].strip('"'))
        options[options.index("--listen") + 1] = f"{machine.address}:{HUB_PORT}"
        options[options.index("--database") + 1] = self.database_url()
        self.started[name] = machine.start(str(self.agenthub), "serve", *options)

    def start_hub_as_service(self, name):
        """As its unit does it: again after 2 s, as long as it ends with a status that time can mend."""
        def is_serving():
            process = self.started.get(name)
            if process is None or process.poll() is not None:
                if process is not None: time.sleep(2)
                self.start_hub(name)
            return self.is_ready(name)
        until(f"{name} is ready", is_serving, 120, 0.3)

    def is_ready(self, name): return ask(f"http://{HUBS[name]}:{HUB_PORT}/readyz")[0] == 200

    def start_balancer(self):
        hubs = {f"HUB_{letter}": f"{address}:{HUB_PORT}" for letter, address in zip("AB", HUBS.values())}
        log = open(self.logs / "balancer.log", "ab")
        subprocess.Popen(["/usr/sbin/haproxy", "-db", "-f", str(ROOT / "deploy/balancer/haproxy.cfg")], stdin=subprocess.DEVNULL,
                         stdout=log, stderr=log, env={**os.environ, **hubs, "HUB_LISTEN": f"{OUTSIDE}:{DEVICES_PORT}"})

    def command(self, *words):
        """A command of agenthub, on the first hub's machine."""
        return self.machines["hub1"].inside(str(self.agenthub), *words, "--database", self.database_url(), timeout=60)

    # --- The network ---

    def cut(self, name, others):
        """Packets between a machine and others get lost without a word: their neighbours lead to no machine."""
        for other in others:
            for here, there in ((name, other), (other, name)):
                self.neighbour(here, "replace", self.address(there), "lladdr", "02:00:00:00:00:fe", "nud", "permanent")
            self.machines[name].cuts.add(other)

    def mend(self, name):
        machine = self.machines[name]
        for other in machine.cuts:
            for here, there in ((name, other), (other, name)): self.neighbour(here, "delete", self.address(there))
        machine.cuts.clear()

    def address(self, name): return self.machines[name].address if name in self.machines else OUTSIDE

    def neighbour(self, here, verb, address, *more):
        device = "eth0" if here in self.machines else "bridge"
        words = ("ip", "neighbour", verb, address, *more, "dev", device)
        self.machines[here].inside(*words) if here in self.machines else run(*words)
