"""The example of the README, as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

from stand import AgentTestCase

README = os.path.abspath(f"{os.path.dirname(__file__)}/../../README.md")


class ReadmeTests(AgentTestCase):
    def test_the_example_prints_what_the_readme_says(self) -> None:
        with open(README) as file:
            text = file.read()
        program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
        output = re.search(r"```text\n(.*?)```", text, re.DOTALL)
        assert program is not None and output is not None
        # Afterwards the agent sends a mutation as soon as it has it.
        self.stand.sync()
        environment = {**os.environ, "AGENTD_SOCKET": self.stand.socket, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program[1]], env=environment, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), (output[1], ""))


if __name__ == "__main__":
    unittest.main()
