"""The control of the tool: programs with one planted mistake each, which the checks must notice."""
import contextlib, io, pathlib, shlex

from checks import Report
from programs import NAMES, Programs

#: What is wrong, the program that a script stands for, the script, and a scenario that must notice. REAL is the program itself.
MISTAKES = [
    ("the hub lacks a record", "agenthub", "delivery: mixed agents and present hub",
     'if [ "$1" = export ]; then REAL "$@" | sed 1d; else exec REAL "$@"; fi'),
    ("the hub counts a change twice", "agenthub", "delivery: mixed agents and present hub",
     'if [ "$1" = export ]; then REAL "$@" | sed \'s/"tally":/"tally":1/\'; else exec REAL "$@"; fi'),
    ("the present agent does not read the database of the earlier one", "agentd", "upgrade: agents first",
     'folder=${2%/*}; [ -f "$folder/seen" ] || rm -f "$folder"/state/agent.db*; touch "$folder/seen"; exec REAL "$@"'),
    ("the hub hands out what is another site's", "agenthub", "scopes: earlier agents and present hub",
     'if [ "$1 $2" = "entities apply" ]; then sed -i "s/, scope: .site.//" "$3"; fi; exec REAL "$@"'),
    ("the hub converts another field", "agenthub", "versions: earlier agent and present hub",
     'if [ "$1 $2" = "entities apply" ]; then sed -i "s/inspector: unknown/inspector: nobody/" "$3"; fi; exec REAL "$@"'),
    ("a fetched file has another byte", "agentctl", "files: earlier agent to present agent over present hub",
     'if [ "$1 $2" = "blobs fetch" ]; then REAL "$@" && printf x >> "$7"; else exec REAL "$@"; fi'),
]


def run(report, earlier, present, folder, perform):
    """perform: runs a scenario of these programs with a report. Each mistake must fail at least one check."""
    for number, (what, name, scenario, script) in enumerate(MISTAKES):
        place = pathlib.Path(folder) / f"control-{number}"
        place.mkdir()
        for program in NAMES: (place / program).symlink_to(present.path(program))
        (place / name).unlink()
        (place / name).write_text("#!/bin/sh\n" + script.replace("REAL", shlex.quote(present.path(name))) + "\n")
        (place / name).chmod(0o755)
        quiet = Report()
        with contextlib.redirect_stdout(io.StringIO()) as lines, contextlib.redirect_stderr(io.StringIO()):
            perform(quiet, earlier, Programs(place, "present"), scenario)
        report.begin("control")
        report.holds(f"{what}: {scenario} notices it", quiet.failed, lambda count: count > 0, "a failed check", never=0)
        noticed = [line for line in lines.getvalue().splitlines() if line.startswith("FAILED")]
        if noticed: print(f"        {noticed[0][:200]}", flush=True)
