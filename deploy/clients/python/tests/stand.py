"""A hub and an agent in a temporary folder, started from the programs in the folder that EDGE_SYNC_BIN names."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from edgesync import Client
from edgesync.errors import EdgeSyncError

T = TypeVar("T")

#: Only ends a test that would otherwise wait for ever.
PATIENCE = 120.0

ENTITIES = """\
entities:
  readings: { kind: event }
  work_orders: { kind: record, fields: { finding: manual, peak: max } }
  inspections: { kind: record }
"""
# The office alone writes orders; the device believes that it may, so the hub refuses what it sends.
AGENT_ENTITIES = ENTITIES + "  orders: { kind: record }\nlocked: [entities.orders]\n"
HUB_ENTITIES = ENTITIES + "  orders: { kind: reference }\n"
#: Audits in their second version, which are filled in by forms; for the option ``entities``.
AUDITS = """\
  forms: { kind: reference }
  audits:
    form: { entity: forms, ref: form_id, path: schema }
    complete: { when: { status: [completed] } }
    validate: reject
    schema: 2
    versions:
      1: { schema: { properties: { site: { type: string } } } }
      2:
        schema: { properties: { site_id: { type: string } } }
        up: [ { rename: { site: site_id } } ]
"""
DOORS = {
    "title": "Fire doors",
    "sections": [
        {
            "id": "doors",
            "title": "Doors",
            "fields": [
                {"id": "closes", "type": "choice", "choices": ["pass", "fail"], "required": True},
                {
                    "id": "reason",
                    "label": "What is wrong?",
                    "type": "text",
                    "required": True,
                    "visible_when": {"closes": "fail"},
                },
            ],
        }
    ],
}


def until(what: str, ask: Callable[[], T], patience: float = PATIENCE) -> T:
    """Asks until the answer counts as true."""
    end = time.monotonic() + patience
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"it never came: {what}")
        time.sleep(0.01)


class Gateway:
    """One agent of a hub. What it wrote stays over its restarts, until the stand is closed."""

    def __init__(self, folder: str, device: str, *, store: str = "", access: str = "", extra: str = "") -> None:
        self.programs = os.environ["EDGE_SYNC_BIN"]
        self.folder = folder
        self.device = device
        self.socket = f"{folder}/agent.sock"
        self._agent: Optional[subprocess.Popen[bytes]] = None
        self._store, self._access, self._extra = store, access, extra

    def write(self, name: str, text: str) -> str:
        """Writes a file into the folder of the gateway. Returns its path."""
        path = f"{self.folder}/{name}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return path

    def sync(self) -> None:
        """Lets the agent talk with its hub now, and waits for the end."""
        self.agentctl("sync", "--force", "--wait")

    def agentctl(self, *arguments: str) -> None:
        command = [f"{self.programs}/agentctl", *arguments, "--socket", self.socket]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}\n{self.log('agent')}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is sent meanwhile."""
        self.agentctl("pause")
        try:
            yield
        finally:
            self.agentctl("resume")

    def start(self, hub: str, entities: str) -> None:
        """Starts the agent, and waits until it serves.

        :param hub: Where its hub listens: ``127.70.1.2:41234``.
        """
        # Several deaths in a row would let the agent start without its sync.
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{self.folder}/agent/starts")
        access = self._access or f'  - {{ user: "{os.geteuid()}", role: admin, app: stand, rate: 100000 }}\n'
        self.write(
            "agentd.yaml",
            f'hub: {{ url: "http://{hub}", device: {self.device}, token_file: "{self.folder}/token" }}\n'
            f'socket: {{ path: "{self.socket}", mode: "0600" }}\n'
            f"access:\n{access}"
            f'store: {{ path: "{self.folder}/agent"{self._store} }}\n'
            f"sync: {{ debounce: 0s, max_backoff: 1s }}\n{self._extra}{entities}",
        )
        command = [f"{self.programs}/agentd", "--config", f"{self.folder}/agentd.yaml"]
        with open(f"{self.folder}/agent.log", "a") as log:
            self._agent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        until("the agent serves", self._serves)

    def _serves(self) -> bool:
        assert self._agent is not None
        if self._agent.poll() is not None:
            raise AssertionError(f"agentd has ended with status {self._agent.returncode}:\n{self.log('agent')}")
        try:
            # The time only lets the test see soon that the agent has ended.
            with Client(self.socket, deadline=5.0) as client:
                client.status()
            return True
        except EdgeSyncError:
            return False

    def kill_agent(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._agent is not None:
            self._agent.send_signal(how)
            self._agent.wait()
            self._agent = None

    def stop_agent(self) -> None:
        """Ends when no thread of the agent runs any more."""
        assert self._agent is not None
        self._agent.send_signal(signal.SIGSTOP)
        tasks = f"/proc/{self._agent.pid}/task"

        def state(task: str) -> str:
            with open(f"{tasks}/{task}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]

        until("the agent stands still", lambda: all(state(task) == "T" for task in os.listdir(tasks)))

    def log(self, name: str) -> str:
        with open(f"{self.folder}/{name}.log", errors="replace") as file:
            return "".join(file.readlines()[-20:])


class Stand(Gateway):
    """One hub and one gateway, and more gateways on demand. What they wrote stays until the stand is closed."""

    def __init__(
        self, *, store: str = "", access: str = "", extra: str = "", entities: str = "", hub: bool = True
    ) -> None:
        super().__init__(tempfile.mkdtemp(prefix="edgesync-"), "stand", store=store, access=access, extra=extra)
        # The hub comes back at its port after a stop. Meanwhile no other process may take that: connections begin at 127.0.0.1, and
        # the tests of another process have another address.
        pid = os.getpid()
        self._host = f"127.{64 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}"
        self._port = 0
        self._hub: Optional[subprocess.Popen[str]] = None
        self._entities = entities
        self._neighbours: List[Gateway] = []
        try:
            os.mkdir(f"{self.folder}/hub")
            self.write("entities.yaml", HUB_ENTITIES + entities)
            self.write("token", self.hub_command("token", "add", self.device))
            # The hub is started once, so that its address is known while it is away.
            self.start_hub()
            if not hub:
                self.stop_hub()
            self.start_agent()
        except BaseException:
            self.close()
            raise

    # MARK: The hub

    def start_hub(self) -> None:
        command = [f"{self.programs}/agenthub", "serve", "--data", f"{self.folder}/hub"]
        command += ["--listen", f"{self._host}:{self._port}", "--entities", f"{self.folder}/entities.yaml"]
        with open(f"{self.folder}/hub.log", "a") as log:
            self._hub = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._hub.stdout is not None
        line = self._hub.stdout.readline()
        if f"{self._host}:" not in line:
            raise AssertionError(f"the hub does not say where it listens: {line!r}\n{self.log('hub')}")
        self._port = int(line.rpartition(":")[2])

    def stop_hub(self) -> None:
        if self._hub is not None:
            self._hub.terminate()
            self._hub.wait()
            assert self._hub.stdout is not None
            self._hub.stdout.close()
            self._hub = None

    def hub_command(self, *arguments: str) -> str:
        done = subprocess.run(
            [f"{self.programs}/agenthub", *arguments, "--data", f"{self.folder}/hub"], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise AssertionError(f"agenthub {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def hub_records(self, entity: str) -> Dict[str, Any]:
        """The hub's documents by id."""
        lines = [json.loads(line) for line in self.hub_command("export", entity).split("\n") if line]
        return {line["id"]: line["data"] for line in lines}

    def hub_applied(self) -> int:
        """Mutations that took effect at the hub."""
        applied = json.loads(self.hub_command("stats", "--json"))["mutations"]["applied"]
        assert isinstance(applied, int)
        return applied

    def publish(self, entity: str, id: str, data: Dict[str, Any]) -> None:
        """Writes a record at the hub, whether it runs or not."""
        file = self.write("published", json.dumps({"id": id, "data": data}) + "\n")
        self.hub_command("publish", entity, file)

    # MARK: The agents

    def start_agent(self) -> None:
        self.start(f"{self._host}:{self._port}", self._agent_entities)

    def add_neighbour(self, device: str) -> Gateway:
        """Starts another gateway of the same hub."""
        neighbour = Gateway(f"{self.folder}/{device}", device)
        os.mkdir(neighbour.folder)
        neighbour.write("token", self.hub_command("token", "add", device))
        self._neighbours.append(neighbour)
        neighbour.start(f"{self._host}:{self._port}", self._agent_entities)
        return neighbour

    @property
    def _agent_entities(self) -> str:
        head, separator, rest = AGENT_ENTITIES.partition("locked:")
        return head + self._entities + separator + rest

    def close(self) -> None:
        for neighbour in self._neighbours:
            neighbour.kill_agent()
        self.kill_agent()
        self.stop_hub()
        shutil.rmtree(self.folder, ignore_errors=True)


class AgentTestCase(unittest.TestCase):
    """Tests that share one hub and one agent; each uses other records."""

    stand: Stand
    #: Arguments for the stand.
    options: Dict[str, Any] = {}
    #: The client that is tested.
    make_client: Any = Client

    @classmethod
    def setUpClass(cls) -> None:
        if not os.environ.get("EDGE_SYNC_BIN"):
            raise unittest.SkipTest("EDGE_SYNC_BIN does not name a folder with agentd and agenthub")
        cls.stand = Stand(**cls.options)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stand.close()

    def setUp(self) -> None:
        self.client = self.make_client(self.stand.socket)
        self.addCleanup(self.client.close)
