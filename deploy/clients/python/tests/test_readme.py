"""The examples of the README, as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

from stand import AUDITS, DOORS, AgentTestCase

README = os.path.abspath(f"{os.path.dirname(__file__)}/../../README.md")


class ReadmeTests(AgentTestCase):
    options = {"entities": AUDITS}

    def test_the_examples_print_what_the_readme_says(self) -> None:
        with open(README) as file:
            text = file.read()
        examples = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
        self.assertEqual(len(examples), text.count("```python"))
        self.stand.publish("forms", "doors", {"schema": DOORS})
        # Afterwards the agent has the form, and sends a mutation as soon as it has it.
        self.stand.sync()
        path = [os.path.abspath(it) for it in sys.path]
        environment = {**os.environ, "AGENTD_SOCKET": self.stand.socket, "PYTHONPATH": os.pathsep.join(path)}
        for program, output in examples:
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                cwd=self.stand.folder,
                capture_output=True,
                text=True,
            )
            self.assertEqual((done.stdout, done.stderr), (output, ""))


if __name__ == "__main__":
    unittest.main()
