"""The examples in other languages, each as a program against a real agent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from typing import Any, Dict, List, Optional, Tuple

from relay import Relay
from stand import AgentTestCase, until

from edgesync import Client, Mutation

CLIENTS = os.path.abspath(f"{os.path.dirname(__file__)}/../..")


class ExampleTests:
    """The tests of every example. The subclasses build and start it."""

    #: Programs that it needs.
    tools: List[str] = []
    stand: Any
    client: Client
    folder: str
    command: List[str]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        """Makes the program. Returns the command that runs it."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        missing = [it for it in cls.tools if shutil.which(it) is None]
        if missing:
            raise unittest.SkipTest(f"{', '.join(missing)} is not installed")
        super().setUpClass()  # type: ignore[misc]
        try:
            cls.folder = tempfile.mkdtemp(prefix="edgesync-")
            cls.command = cls.make(cls.folder)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()  # type: ignore[misc]
        shutil.rmtree(cls.folder, ignore_errors=True)

    def environment(self, socket: Optional[str], deadline: int) -> Dict[str, str]:
        # An example that a test kills cannot remove its own temporary files.
        return {
            **os.environ,
            "AGENTD_SOCKET": socket or self.stand.socket,
            "DEADLINE": str(deadline),
            "TMPDIR": self.folder,
        }

    def run_it(
        self, *words: str, socket: Optional[str] = None, deadline: int = 60
    ) -> "subprocess.CompletedProcess[str]":
        command = [*self.command, *words]
        return subprocess.run(
            command, env=self.environment(socket, deadline), capture_output=True, text=True, timeout=300
        )

    def check(self, *words: str, **options: Any) -> str:
        done = self.run_it(*words, **options)
        assert done.returncode == 0, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout.rstrip("\n")

    def fails(self, status: int, says: str, *words: str, **options: Any) -> None:
        done = self.run_it(*words, **options)
        assert done.returncode == status, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        assert says in done.stderr, f"{words}: {done.stderr!r} does not say {says!r}"

    def test_it_writes_once_and_reads(self: Any) -> None:
        data = '{"n":9007199254740993,"price":1.10,"text":"e\u0301 \U0001f600"}'
        first = self.check("write", "work_orders", "wo-1", data, "example-key-1")
        second = self.check("write", "work_orders", "wo-1", data, "example-key-1")
        self.assertEqual(first, second)
        self.assertEqual(self.client.mutation(first).record_id, "wo-1")
        answer = self.check("read", "work_orders", "wo-1")
        self.assertIn('"n":9007199254740993,"price":1.10', answer)
        self.assertEqual(json.loads(answer)["data"]["text"], "e\u0301 \U0001f600")

    def test_it_repeats_a_request_whose_answer_was_lost(self: Any) -> None:
        relay = Relay(f"{self.folder}/relay.sock", self.stand.socket, whole=True)
        self.addCleanup(relay.close)
        answers: List[bytes] = []

        def lose(data: bytes) -> Optional[bytes]:
            answers.append(data)
            # The first answer dies with the agent, the second one breaks off.
            if len(answers) == 1:
                self.stand.kill_agent()
                self.stand.start_agent()
                return None
            return data[:-3] if len(answers) == 2 else data

        relay.on_answer = lose
        before = self.client.status().enqueued
        id = self.check("write", "work_orders", "wo-2", '{"n":1}', "example-key-2", socket=relay.path)
        self.assertEqual(len(answers), 3)
        self.assertIn(id.encode(), answers[0])
        self.assertEqual(self.client.status().enqueued, before + 1)

    def test_it_follows_over_restarts_of_the_agent_and_of_itself(self: Any) -> None:
        position = f"{self.folder}/position"
        seen: List[Tuple[int, str]] = []

        def follow() -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [*self.command, "follow", position],
                env=self.environment(None, 60),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )

            def read() -> None:
                assert process.stdout is not None
                for line in process.stdout:
                    # The last one of a process that is killed may lack its end.
                    if not line.endswith("\n"):
                        break
                    number, kind, data = line.split(" ", 2)
                    seen.append((int(number), json.loads(data).get("id", kind)))
                process.stdout.close()

            threading.Thread(target=read, daemon=True).start()
            return process

        def end(process: "subprocess.Popen[str]") -> None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        def write(numbers: range) -> None:
            for number in numbers:
                self.client.enqueue(Mutation("inspections", "create", f"f-{number:02}", {"n": 1}))

        def has_seen(id: str) -> bool:
            return any(it[1] == id for it in seen)

        process = follow()
        try:
            until("it has a position", lambda: os.path.exists(position) and os.path.getsize(position) > 0)
            with open(position) as file:
                start = int(file.read())
            write(range(0, 10))
            self.stand.kill_agent()
            self.stand.start_agent()
            write(range(10, 20))
            until("it has seen them", lambda: has_seen("f-19"))
            end(process)
            write(range(20, 30))
            process = follow()
            until("it has seen those of the time between", lambda: has_seen("f-29"))
        finally:
            end(process)
        # The last one before its end may come again: it is dealt with before its position is kept.
        once = [it for place, it in enumerate(seen) if place == 0 or seen[place - 1] != it]
        whole = []
        for event in self.client.follow(["record"], after=start):
            whole.append((event.position, event.id))
            if event.position >= once[-1][0]:
                break
        self.assertEqual(once, whole)

    def test_it_says_what_failed(self: Any) -> None:
        self.fails(1, "did you mean", "write", "work_orders", "wo-3", '{"n":1},"actoin":1', "example-key-3")
        self.fails(1, "idempotency-mismatch", "write", "work_orders", "wo-9", '{"n":2}', self.used_key())
        self.fails(1, "there is no record work_orders/nowhere", "read", "work_orders", "nowhere")
        self.fails(2, "/nowhere.sock", "read", "work_orders", "wo-1", socket="/nowhere.sock", deadline=0)
        self.fails(64, "write ENTITY ID DATA KEY", "write")
        self.fails(64, "write ENTITY ID DATA KEY")

    def used_key(self) -> str:
        self.check("write", "work_orders", "wo-9", '{"n":1}', "example-key-9")
        return "example-key-9"


class ShellTests(ExampleTests, AgentTestCase):
    tools = ["bash", "curl"]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        return [f"{CLIENTS}/shell/example"]


class NodeTests(ExampleTests, AgentTestCase):
    tools = ["node"]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        return ["node", f"{CLIENTS}/node/example.mjs"]


class GoTests(ExampleTests, AgentTestCase):
    tools = ["go"]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        environment = {**os.environ, "GOCACHE": f"{folder}/cache", "GOPATH": f"{folder}/path", "GO111MODULE": "off"}
        subprocess.run(["go", "vet", f"{CLIENTS}/go/example.go"], env=environment, check=True)
        subprocess.run(
            ["go", "build", "-o", f"{folder}/example", f"{CLIENTS}/go/example.go"], env=environment, check=True
        )
        return [f"{folder}/example"]


class CTests(ExampleTests, AgentTestCase):
    tools = ["cc"]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=address,undefined"]
        subprocess.run(["cc", *options, "-o", f"{folder}/example", f"{CLIENTS}/c/example.c", "-lcurl"], check=True)
        return [f"{folder}/example"]


class SwiftTests(ExampleTests, AgentTestCase):
    tools = ["swift"]

    @classmethod
    def make(cls, folder: str) -> List[str]:
        # A build takes a while, so what starts these tests may have made the program.
        program = os.environ.get("EDGE_SYNC_SWIFT_EXAMPLE")
        if program:
            return [program]
        # The package stands outside of the checkout, as the package of an app does.
        shutil.copytree(f"{CLIENTS}/swift", f"{folder}/app", ignore=shutil.ignore_patterns(".build"))
        # FOCUS leaves out what the library does not need, so nothing is fetched for this build.
        environment = {**os.environ, "EDGE_SYNC_SOURCE": os.path.abspath(f"{CLIENTS}/../.."), "FOCUS": "EdgeSync"}
        command = ["swift", "build", "--package-path", f"{folder}/app", "--scratch-path", f"{folder}/build"]
        # Another build may run beside this one, and would wait for the cache that both share, or find it locked.
        command += ["--cache-path", f"{folder}/cache"]
        subprocess.run(command, env=environment, check=True)
        return [f"{folder}/build/debug/example"]

    def test_it_says_what_failed(self) -> None:
        self.fails(1, "is not JSON", "write", "work_orders", "wo-3", '{"n":1},"actoin":1', "example-key-3")
        self.fails(1, "idempotency-mismatch", "write", "work_orders", "wo-9", '{"n":2}', self.used_key())
        self.fails(1, "there is no record work_orders/nowhere", "read", "work_orders", "nowhere")
        self.fails(2, "/nowhere.sock", "read", "work_orders", "wo-1", socket="/nowhere.sock", deadline=0)
        self.fails(64, "write ENTITY ID DATA KEY", "write")

    def test_it_waits_queries_and_reads_back_a_file(self) -> None:
        id = self.check("write", "work_orders", "wo-5", '{"state":"swift","n":9007199254740993}', "example-key-5")
        self.assertEqual(self.check("wait", id), "delivered")
        found = self.check("query", "work_orders", "state", '"swift"')
        self.assertEqual(found, 'wo-5 {"state":"swift","n":9007199254740993}')
        with open(f"{self.folder}/photo.bin", "wb") as file:
            file.write(os.urandom(300_000))
        self.assertRegex(self.check("file", f"{self.folder}/photo.bin"), r"^b-[0-9]+ [a-z]+ 300000$")


if __name__ == "__main__":
    unittest.main()
