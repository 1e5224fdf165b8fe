"""Programs that stay, waiting for them, and what they leave behind."""
import hashlib, os, subprocess, time

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


def tail(path, lines):
    try: return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error: return str(error)


def digest(folder):
    """One checksum for each file below a folder that is not empty, by its path."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size}
