"""The programs of one commit, and what they are able to do. Their version numbers say nothing, so they are asked."""
import functools, os, pathlib, subprocess, tempfile

NAMES = ("agentd", "agentctl", "agenthub")

SCOPES = """\
entities:
  work_orders: { kind: record, scope: [site] }
devices:
  d-1: { site: [s-1] }
"""
VERSIONS = """\
entities:
  audits:
    schema: 2
    versions:
      1: { schema: { properties: { site: { type: string } } } }
      2: { schema: { properties: { site_id: { type: string } } }, up: [ { rename: { site: site_id } } ] }
"""
AGENT = """\
hub: { url: "http://127.0.0.1:1", device: d-1 }
"""


class Failure(Exception):
    """A program did not do what the scenario needs in order to go on."""


class Programs:
    """A folder with agentd, agentctl and agenthub."""

    def __init__(self, folder, label):
        self.folder, self.label = pathlib.Path(folder).resolve(), label

    def __str__(self):
        return self.label

    def path(self, name):
        return str(self.folder / name)

    def missing(self):
        return [name for name in NAMES if not os.access(self.path(name), os.X_OK)]

    @functools.lru_cache(maxsize=None)
    def help(self, name, *words):
        ended = subprocess.run([self.path(name), *words, "--help"], capture_output=True, text=True)
        return ended.stdout + ended.stderr

    @functools.lru_cache(maxsize=None)
    def accepts(self, name, settings):
        """Whether the hub accepts this text as a file of entities, or the agent as its configuration."""
        words = ["--check", "--config"] if name == "agentd" else ["entities", "check"]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "settings.yaml"
            file.write_text(settings)
            return subprocess.run([self.path(name), *words, str(file)], capture_output=True).returncode == 0

    def check_entities(self, file):
        """Exit status and output of the hub's check of a file of entities."""
        ended = subprocess.run([self.path("agenthub"), "entities", "check", str(file)], capture_output=True, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    # What a program can do, by its commands and by the settings that it accepts.

    @property
    def has_scopes(self): return self.accepts("agenthub", SCOPES)

    @property
    def has_versions(self): return self.accepts("agenthub", VERSIONS)

    @property
    def agent_has_versions(self): return self.accepts("agentd", AGENT + VERSIONS)

    @property
    def has_grants(self): return "\n  grant " in self.help("agenthub")

    @property
    def has_apply(self): return "\n  apply " in self.help("agenthub", "entities")

    # What the protocol carries, by the words that it needs.

    @functools.lru_cache(maxsize=None)
    def knows(self, name, word): return word.encode() in pathlib.Path(self.path(name)).read_bytes()

    @property
    def lets_go(self): return self.knows("agentd", "Sync-Can")

    @property
    def refuses_who_keeps(self): return self.knows("agenthub", "agent-too-old")

    @property
    def fetches_files(self): return "\n  fetch " in self.help("agentctl", "blobs")

    def abilities(self):
        """For people: one line."""
        names = {"scopes": self.has_scopes, "grant": self.has_grants, "entities apply": self.has_apply,
                 "versions at the hub": self.has_versions,
                 "versions at the agent": self.agent_has_versions, "blobs fetch": self.fetches_files,
                 "Sync-Can": self.lets_go}
        return ", ".join(f"{'' if has else 'no '}{name}" for name, has in names.items())
