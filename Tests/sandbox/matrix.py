"""All cells of the matrix: the attack programs against the table `expected`, then the scenarios."""

import os
import select
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import scenarios
from cells import HOME, Cell, Guard

HERE = os.path.dirname(os.path.abspath(__file__))
IDENTITIES = ("root", "unprivileged", "container")
DENIED = {"EACCES", "EPERM", "EROFS", "ENOENT", "ENXIO", "EXDEV"}


def table(name, columns):
    """The rows of a table file, split into `columns`, the last of which takes the rest."""
    with open(os.path.join(HERE, name)) as file:
        lines = [line.strip() for line in file]
    return [line.split(None, columns - 1) for line in lines if line and not line.startswith("#")]


def fits(result, expected):
    return any(result in DENIED if word == "denied" else result == word
               for word in expected.split("|"))


class Count:
    """Rows that ran, and what was wrong."""

    def __init__(self):
        self.rows, self.failures = 0, []

    def row(self, cell, name, problem=None):
        self.rows += 1
        if problem is not None:
            self.failures.append("%s  %s: %s" % (cell.name, name, problem))
            print("FAILED", self.failures[-1], flush=True)


def attack(cell, count, expected):
    """Runs the attack programs; compares each line they print."""
    guard = cell.guard
    cell.make_workspace()
    protected = [("protect", cell.workspace + name) for name in ("/.git/hooks", "/.git/config", "/.agents")]
    if cell.strong:
        protected.append(("hide", cell.workspace + "/hidden"))
    secret = os.open(HOME + "/secret", os.O_RDWR)
    programs = [
        ("files", HOME + "/secret", cell.workspace, guard.victim.pid, cell.programs + "/latency"),
        ("kernel", guard.victim.pid),
        ("network", guard.tcp.getsockname()[1], guard.path_name, guard.abstract_name, cell.workspace),
    ]
    column = 0 if cell.strong else 1
    results = {}
    for program in programs:
        launch, status = cell.attack(*program, more=protected, extra=[secret, secret])
        if status != 0:
            count.row(cell, program[0], "status %s %s %s" % (status, launch.records(), launch.errors))
        results.update(line.split(" ", 1) for line in launch.text.splitlines())
    os.close(secret)
    for name, wanted in expected.items():
        result = results.pop(name, "not printed")
        wrong = None if fits(result, wanted[column]) else "%s, not %s" % (result, wanted[column])
        count.row(cell, name, wrong)
    for name, result in results.items():
        count.row(cell, name, "%s, and the table has no such row" % result)
    for problem in guard.check() + ["%s was reached" % server for server in guard.reached]:
        count.row(cell, "attacks", problem)
    guard.reached.clear()


def reasons_against(name, impossible, known):
    return [impossible[name, fact] for fact in sorted(known) if (name, fact) in impossible]


def play(cell, count, wanted, impossible, known):
    """Runs the scenarios of this cell."""
    cell.make_workspace()
    for scenario in scenarios.all_scenarios:
        if not scenario.fits(cell) or (wanted and scenario.name.split()[0] not in wanted):
            continue
        reasons = reasons_against("scenario/" + scenario.run.__name__, impossible, known)
        if reasons:
            print("IMPOSSIBLE HERE  %s  %s: %s" % (cell.name, scenario.name, "; ".join(reasons)), flush=True)
            continue
        problem, start = None, time.monotonic()
        try:
            scenario.run(cell)
        except (AssertionError, TimeoutError, OSError) as error:
            problem = "%s: %s" % (type(error).__name__, error)
        left = cell.guard.processes()
        if problem is None and left:
            problem = "processes are left: %s" % describe(left)
        end(left)
        problems = cell.guard.check()
        took = time.monotonic() - start
        if took > 3:
            print("%s  %s took %.1f s" % (cell.name, scenario.name, took), flush=True)
        count.row(cell, scenario.name, problem or (problems[0] if problems else None))
        cell.guard.reached.clear()


def end(processes):
    """So that one failure does not look like many."""
    for process in processes:
        try:
            handle = os.pidfd_open(process)
            os.kill(process, signal.SIGKILL)
            select.select([handle], [], [], 5)
            os.close(handle)
            os.waitpid(process, os.WNOHANG)
        except (ProcessLookupError, ChildProcessError):
            pass


def describe(processes):
    names = []
    for process in processes:
        try:
            with open("/proc/%d/cmdline" % process) as file:
                names.append(file.read().replace("\0", " ").strip() or str(process))
        except OSError:
            pass
    return names


def facts(guard):
    """What is true of this machine, by identity."""
    found = {}
    for identity in IDENTITIES:
        cell = Cell(guard, identity, "namespaces")
        result = set()
        with open("/proc/self/uid_map") as file:
            if os.geteuid() != 0 or file.read().split() != ["0", "0", "4294967295"]:
                result.add("no-root")
        if "no-root" in result and identity == "unprivileged":
            found[identity] = result
            continue
        output = subprocess.run(cell.program() + ["--probe"], preexec_fn=cell.before, text=True,
                                stdout=subprocess.PIPE, check=True).stdout.splitlines()
        # A failure at another stage is ours, and fails the cell.
        if any(line.startswith(("namespaces failed namespaces ", "namespaces failed root ")) for line in output):
            result.add("no-namespaces")
        version = next(int(line.split()[1]) for line in output if line.startswith("landlock_abi "))
        if version == 0:
            result.add("no-landlock")
        elif version < 6:
            result.add("no-scope")
        if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 3):
            result.add("no-idmap")
        if not guard.private:
            result.add("no-guard")
        found[identity] = result
    return found


def main():
    wanted = {word for word in sys.argv[2:] if "/" not in word}
    cells = {word for word in sys.argv[2:] if "/" in word}
    expected = {name: results for name, *results in table("expected", 3)}
    impossible = {(cell, fact): reason for cell, fact, reason in table("impossible", 3)}
    guard = Guard(sys.argv[1])
    known = facts(guard)
    count = Count()
    for identity in IDENTITIES:
        for tier in ("namespaces", "landlock"):
            cell = Cell(guard, identity, tier)
            if cells and cell.name not in cells:
                continue
            reasons = reasons_against(cell.name, impossible, known[identity])
            if reasons:
                print("IMPOSSIBLE HERE  %s: %s" % (cell.name, "; ".join(reasons)), flush=True)
                continue
            before = count.rows
            refused = identity == "container" and cell.strong
            if not refused and not wanted:
                attack(cell, count, expected)
            play(cell, count, wanted, impossible, known[identity])
            print("%-24s %d rows" % (cell.name, count.rows - before), flush=True)
    guard.victim.kill()
    print("%d rows, %d failures" % (count.rows, len(count.failures)))
    if not guard.private:
        print("NO GUARD: this machine denies namespaces, so only it stood around the attacks")
    if count.failures or count.rows == 0:
        sys.exit(1)


main()
