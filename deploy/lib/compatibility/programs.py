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
    def accepts(self, entities):
        """Whether the hub accepts this text as a file of entities."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(entities)
            file.flush()
            return subprocess.run([self.path("agenthub"), "entities", "check", file.name], capture_output=True).returncode == 0

    # What a program can do, by its commands and by the settings that it accepts.

    @property
    def has_scopes(self): return self.accepts(SCOPES)

    @property
    def has_versions(self): return self.accepts(VERSIONS)

    @property
    def has_grants(self): return "\n  grant " in self.help("agenthub")

    @property
    def has_apply(self): return "\n  apply " in self.help("agenthub", "entities")

    @property
    def fetches_files(self): return "\n  fetch " in self.help("agentctl", "blobs")

    def abilities(self):
        """For people: one line."""
        names = {"scopes": self.has_scopes, "grant": self.has_grants, "entities apply": self.has_apply,
                 "schema versions": self.has_versions, "blobs fetch": self.fetches_files}
        return ", ".join(f"{'' if has else 'no '}{name}" for name, has in names.items())
