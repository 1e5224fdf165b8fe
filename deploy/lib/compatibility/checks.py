"""The result of each check: one line, passed or FAILED."""
import sys


class Report:
    """Collects what was expected and what came."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.where = 0, 0, 0, ""

    def begin(self, where):
        self.where = where

    def equal(self, what, found, expected):
        """Both are shown, shortened, if they differ. Dictionaries by their differences."""
        if found == expected: return self._pass(what)
        if isinstance(found, dict) and isinstance(expected, dict): found, expected = differences(found, expected)
        self._fail(what, short(expected), short(found))

    def holds(self, what, found, test, expected, never):
        """A condition that is no comparison.

        never: A value that must not pass. It is tried as well, so that a condition which is always true fails.
        """
        if test(never): return self._fail(what, f"a condition that {short(never)} does not fulfil", "one that everything fulfils")
        if test(found): return self._pass(what)
        self._fail(what, expected, short(found))

    def skip(self, what, why):
        self.skipped += 1
        self._say("skipped", f"{what}: {why}")

    def broke(self, error, logs=""):
        """The scenario ended early."""
        self._fail("the scenario runs to its end", "no error", f"{type(error).__name__}: {error}")
        if logs: print(logs, file=sys.stderr)

    def summary(self):
        return f"compatibility: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def _pass(self, what):
        self.passed += 1
        self._say("passed", what)

    def _fail(self, what, expected, found):
        self.failed += 1
        self._say("FAILED", f"{what}: expected {expected}, found {found}")

    def _say(self, word, text):
        print(f"{word:7} {self.where}: {text}", flush=True)


def short(value, most=300):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def differences(found, expected):
    """The members in which two dictionaries differ, at most five."""
    names = [name for name in {**expected, **found} if found.get(name, ...) != expected.get(name, ...)][:5]
    absent = "absent"
    return {name: found.get(name, absent) for name in names}, {name: expected.get(name, absent) for name in names}
