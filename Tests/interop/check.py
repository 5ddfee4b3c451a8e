"""Exchanges stores between Perdure and pi-durable-python: check.py INTEROP_PROCESS FOLDER"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys

import peer

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = os.path.join(HERE, "scenarios.json")
LIMIT_SECONDS = 60
MISSING = "(missing)"


def run(*command):
    """Runs a program; one that does not end has the status 124, as with timeout(1)."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 124, str(error.stdout), str(error.stderr))

# What features.json sorts its scenarios into.
GROUPS = ("refused", "finished", "blocked", "unfinished", "settled")


class Perdure:
    name = "Perdure"
    died = -signal.SIGKILL

    def __init__(self, program):
        self._program = program

    def run(self, *arguments):
        return run(self._program, *arguments)

    def dump(self, path):
        result = self.run("dump", path)
        if result.returncode != 0:
            raise RuntimeError("Perdure cannot read %s: %s" % (path, result.stdout + result.stderr))
        return json.loads(result.stdout)


class Peer:
    name = "pi_durable"
    died = peer.DIED

    def run(self, *arguments):
        return run(sys.executable, os.path.join(HERE, "peer.py"), *arguments)

    def dump(self, path):
        return asyncio.run(peer.dump(path))


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, claim, problem):
        """Counts a claim that holds when there is no problem; problems are texts or lists of them."""
        if not problem:
            self.passed += 1
            return True
        self.failed += 1
        print("FAILED: " + claim)
        for line in ([problem] if isinstance(problem, str) else list(problem))[:12]:
            print("    " + line[:600])
        return False


def differences(left, right, path="", found=None):
    """Where two JSON values differ; numbers are equal when their values are."""
    found = [] if found is None else found
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            differences(left.get(key, MISSING), right.get(key, MISSING), path + "." + key, found)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right)):
            differences(*pair, "%s[%d]" % (path, index), found)
    elif isinstance(left, bool) != isinstance(right, bool) or left != right:
        found.append("%s: %s / %s" % (path, json.dumps(left)[:200], json.dumps(right)[:200]))
    return found


def without_wording(messages):
    """Messages without the text of results that the request invents for calls that have none."""
    def plain(message):
        if (message.get("details") or {}) == {"reason": "missing_result"}:
            return {**message, "content": None}
        return message
    return [plain(message) for message in messages]


def live_work(dump):
    tasks = ["task %d is %s" % (t["id"], t["state"]["status"]) for t in dump["tasks"]
             if t["state"]["status"] != "terminal"]
    return tasks + ["submission %d is %s" % (s["id"], s["status"]) for s in dump["submissions"]
                    if s["status"] not in ("done", "unanswered")]


def entries(dump, conversation="1"):
    return [row["entry"] for row in dump["transcripts"][conversation]["entries"]]


def shape(dump):
    """What a transcript says, without ids, times and wording; results of a round in any order."""
    result = []
    for id in sorted(dump["transcripts"], key=int):
        rows = []
        for entry in entries(dump, id):
            for message in entry.get("model", []):
                codes = [d.get("code") for d in (entry.get("data") or {}).get("diagnostics", [])]
                row = [entry["kind"], message["role"], message.get("stopReason"),
                       message.get("toolCallId"), message.get("isError"), codes,
                       message.get("details") or None, message.get("toolsAdded"),
                       message.get("toolsRemoved"), sorted(entry)]
                # The words around a summary are each program's own.
                if message["role"] == "user" and isinstance(message["content"], str):
                    row.append(json.loads(message["content"]))
                if message["role"] == "assistant":
                    row.append(message["content"])
                if message["role"] == "toolResult" and not codes:
                    row.append(message["content"])
                rows.append(row)
        start = 0
        while start < len(rows):
            end = start
            while end < len(rows) and rows[end][0] == "pi.tool-result":
                end += 1
            rows[start:end] = sorted(rows[start:end], key=lambda row: row[3])
            start = end + 1
        result.append(rows)
    return result


def without_times(entry):
    """A queued write without the times of its messages."""
    if not entry or "model" not in entry:
        return entry
    return {**entry, "model": [{**m, "timestamp": None} for m in entry["model"]]}


def bearings(dump):
    """Where live work stands: tasks and the members of the documents, without values that vary."""
    tasks = [[t["kind"], t["version"], t["state"]["status"], sorted(t["state"]),
              sorted(t["state"].get("checkpoint") or {}), t["abortRequested"], sorted(t)]
             for t in dump["tasks"]]
    documents = []
    for row in dump["documents"]:
        record = row["record"]
        slots = [[s["callId"], s["status"], sorted(set(s) - {"details"})]
                 for s in row["value"].get("tools") or [] if record["kind"] == "pi.live"]
        items = [{**i, "id": None, "entry": without_times(i.get("entry")),
                  "content": json.loads(i.get("content", "null"))}
                 for i in row["value"].get("items") or [] if record["kind"] == "pi.inbox"]
        documents.append([record["kind"], record["scope"]["kind"], record.get("history"),
                          record.get("fork"), sorted(record), row["version"], sorted(row["value"]),
                          sorted(row["value"].get("generation") or {}), slots, items])
    return {"tasks": tasks, "documents": sorted(documents, key=lambda d: d[0])}


class Exchange:
    def __init__(self, perdure, other, folder, kind):
        self.perdure, self.other, self.folder, self.kind = perdure, other, folder, kind
        self.checks = Checks()
        with open(SCENARIOS) as file:
            self.scenarios = json.load(file)

    def path(self, name):
        return os.path.join(self.folder, name.replace(" ", "-") + "." + self.kind)

    def copy(self, path):
        """A copy of a store that is closed, whose file or folder is all of it."""
        copy = self.path("copy")
        if self.kind == "sqlite":
            shutil.copyfile(path, copy)
        else:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
        return copy

    def same(self, path, about):
        """Both read the same; returns what Perdure read."""
        mine = self.perdure.dump(path)
        contexts = {id: t.pop("messages") for id, t in mine["transcripts"].items()}
        violations = mine.pop("violations")
        theirs = self.other.dump(path)
        self.checks.check(about + ": both read the same records and documents",
                          differences(mine, theirs))
        # Opening a harness takes over what ran, so the context is derived from a copy.
        shown = asyncio.run(peer.contexts(self.copy(path),
                                          [c["id"] for c in mine["conversations"]]))
        self.checks.check(about + ": both derive the same context", differences(
            {id: without_wording(m) for id, m in contexts.items()},
            {id: without_wording(m) for id, m in shown.items()}))
        self.checks.check(about + ": the invariants hold", violations)
        return mine

    def ended(self, about, result, status):
        problem = None
        if result.returncode != status:
            problem = "status %s instead of %s\n%s" % (
                result.returncode, status, result.stdout[-2000:] + result.stderr[-2000:])
        return self.checks.check(about, problem)

    # One scenario, written by one and finished by the other.

    def scenario(self, name, writer, reader):
        steps = self.scenarios["scenarios"][name]
        dies = any("die" in step.get("then", "") for step in steps)
        about = "%s by %s" % (name, writer.name)
        path = self.path(about)
        result = writer.run("write", path, SCENARIOS, name)
        if not self.ended(about + ": is written", result, writer.died if dies else 0):
            return None
        before = self.same(path, about)
        self.prune(about, path, reader, dies, name)
        if dies:
            self.taken_over(about, path, writer, reader)
            self.finish(about, path, before, reader)
        self.go_on(about, path, reader, name)
        return before

    def taken_over(self, about, path, writer, reader):
        """What ran when the writer died is pending once it has opened the store again."""
        about += ", taken over"
        other = self.path(about)
        (shutil.copytree if self.kind == "jsonl" else shutil.copyfile)(path, other)
        for suffix in ("-wal", ".effects"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, other + suffix)
        if self.ended(about, writer.run("open", other, SCENARIOS), 0):
            before = self.same(other, about)
            self.checks.check(about + ": nothing runs", [
                json.dumps(t) for t in before["tasks"] if t["state"]["status"] == "running"])
            self.finish(about, other, before, reader)

    def prune(self, about, path, reader, dies, name):
        """What may go is removed from a copy, with which everybody goes on."""
        about += ", pruned"
        pruned = self.path(about)
        os.rename(self.copy(path), pruned)
        if not self.ended(about, self.perdure.run("prune", pruned), 0):
            return
        after = self.same(pruned, about)
        self.checks.check(about + ": no ended task that nothing needs is left", [
            "task %d" % t["id"] for t in after["tasks"] if t["state"]["status"] == "terminal"
            and not dies and not any(c.get("owner") for c in after["conversations"])])
        if dies and self.ended(about + ", finished by " + reader.name,
                               reader.run("resume", pruned, SCENARIOS), 0):
            self.same(pruned, about + ", finished by " + reader.name)
        self.go_on(about, pruned, reader, name)

    def finish(self, about, path, before, reader):
        about += ", finished by " + reader.name
        if not self.ended(about, reader.run("resume", path, SCENARIOS), 0):
            return
        after = self.same(path, about)
        self.checks.check(about + ": no work is left", live_work(after))
        aborted = any(task["abortRequested"] for task in before["tasks"])
        wanted = "unanswered" if aborted else "done"
        self.checks.check(about + ": the submissions are settled", [
            json.dumps(s) for s in after["submissions"][-1:] if s["status"] != wanted])
        self.checks.check(about + ": what was written stays",
                          differences(before["transcripts"]["1"]["entries"],
                                      after["transcripts"]["1"]["entries"]
                                      [:len(before["transcripts"]["1"]["entries"])]))
        self.checks.check(about + ": every call has one result", self.unanswered(after))
        added = entries(after)[len(entries(before)):]
        # A reset leaves no prompt, so that it is said again.
        if not any("head" in e for e in added):
            self.checks.check(about + ": the offered tools are known", [
                "a further pi.system entry: " + json.dumps(e["model"]) for e in added
                if e["kind"] == "pi.system"])
        self.checks.check(about + ": an unsafe call that had started is interrupted",
                          self.not_interrupted(before, after))
        self.checks.check(about + ": an unsafe call takes effect once at most", self.repeated(path))

    def not_interrupted(self, before, after):
        """The unsafe calls that ran when the writer died and have another result."""
        safe = {tool["name"] for tool in self.scenarios["tools"] if tool.get("replay") == "safe"}
        wanted = "aborted" if any(t["abortRequested"] for t in before["tasks"]) else "interrupted"
        running = {slot["taskId"] for row in before["documents"] if row["record"]["kind"] == "pi.live"
                   for slot in row["value"].get("tools", [])
                   if slot["status"] == "running" and slot["name"] not in safe}
        problems = []
        for id in after["transcripts"]:
            for entry in entries(after, id):
                codes = [d.get("code") for d in (entry.get("data") or {}).get("diagnostics", [])]
                if entry.get("byTaskId") in running and wanted not in codes:
                    problems.append(json.dumps(entry))
        return problems

    def repeated(self, path):
        """The lines that calls of the unsafe tool wrote more than once."""
        with open(path + ".effects", "a+") as file:
            file.seek(0)
            lines = file.read().splitlines()
        unsafe = {call["arguments"]["line"] for steps in self.scenarios["scenarios"].values()
                  for step in steps for turn in step.get("submit", [])
                  for call in turn.get("calls", []) if call["name"] == "once"}
        return [line for line in unsafe if lines.count(line) > 1]

    @staticmethod
    def unanswered(dump):
        problems = []
        for id in dump["transcripts"]:
            calls, results = [], []
            for entry in entries(dump, id):
                for message in entry.get("model", []):
                    if message["role"] == "assistant" and message["stopReason"] == "toolUse":
                        calls += [c["id"] for c in message["content"] if c["type"] == "toolCall"]
                    elif message["role"] == "toolResult":
                        results.append(message["toolCallId"])
            if sorted(calls) != sorted(results):
                problems.append("conversation %s: %s / %s" % (id, sorted(calls), sorted(results)))
        return problems

    def go_on(self, about, path, program, name="again"):
        """A further input is answered, or the scenario is continued in its own way."""
        about += ", continued by " + program.name
        own = name + " again"
        again = own if own in self.scenarios["scenarios"] else "again"
        if self.ended(about, program.run("write", path, SCENARIOS, again), 0):
            after = self.same(path, about)
            last = [s for s in after["submissions"] if s["conversationId"] == 1][-1]
            self.checks.check(about + ": the input is answered",
                              None if last["status"] == "done" else json.dumps(last))

    def both_ways(self):
        for name in self.scenarios["scenarios"]:
            if name.endswith("again"):
                continue
            mine = self.scenario(name, self.perdure, self.other)
            theirs = self.scenario(name, self.other, self.perdure)
            if mine is None or theirs is None:
                continue
            self.checks.check(name + ": both write the same transcript",
                              differences(shape(mine), shape(theirs)))
            self.checks.check(name + ": both stand at the same place",
                              differences(bearings(mine), bearings(theirs)))

    # What this version of Perdure lacks.

    def lacking(self):
        with open(os.path.join(HERE, "features.json")) as file:
            features = json.load(file)
        all_of_it = os.path.join(self.folder, "features.json")
        with open(all_of_it, "w") as file:
            json.dump({**self.scenarios, "more": features["more"],
                       "scenarios": {name: steps for group in GROUPS
                                     for name, steps in features[group].items()}}, file)
        for name in features["unfinished"]:
            for writer, reader in ((self.other, self.perdure), (self.perdure, self.other)):
                about = "%s by %s" % (name, writer.name)
                path = self.path(about)
                result = writer.run("write", path, all_of_it, name)
                if self.ended(about + ": is written", result, writer.died):
                    self.finish(about, path, self.same(path, about), reader)
                    self.go_on(about, path, reader)
        for name in features["refused"]:
            path = self.path("refused " + name)
            if not self.ended(name + ": is written", self.other.run("write", path, all_of_it, name),
                              self.other.died):
                continue
            before = self.same(path, name)
            result = self.perdure.run("resume", path, SCENARIOS)
            self.ended(name + ": Perdure refuses to go on", result, 3)
            self.checks.check(name + ": the refusal says so",
                              None if result.stdout.startswith("unsupported_feature: ") else result.stdout)
            after = self.same(path, name + ", refused")
            self.checks.check(name + ": the refusal changes nothing", differences(before, after))
            self.ended(name + ": pi_durable goes on",
                       self.other.run("resume", path, all_of_it), 0)
            self.same(path, name + ", finished")
        for name in [*features["finished"], *features["blocked"]]:
            self.unknown(name, all_of_it, name in features["blocked"])
        for name in features["settled"]:
            path = self.path("settled " + name)
            if self.ended(name + ": is written", self.other.run("write", path, all_of_it, name), 0):
                self.same(path, name)
                self.go_on(name, path, self.perdure)
                self.go_on(name + ", twice", path, self.other)

    def unknown(self, name, all_of_it, is_blocked):
        """Perdure goes on without the code of the other program, which then ends what is blocked."""
        path = self.path("unknown " + name)
        if not self.ended(name + ": is written", self.other.run("write", path, all_of_it, name),
                          self.other.died):
            return
        result = self.perdure.run("resume", path, SCENARIOS)
        self.ended(name + ": Perdure goes on", result, 0)
        after = self.same(path, name + ", gone on with")
        if is_blocked:
            self.checks.check(name + ": Perdure says what is blocked", None if ": missing_task" in result.stdout
                              and live_work(after) else result.stdout)
            self.ended(name + ": pi_durable goes on", self.other.run("resume", path, all_of_it), 0)
            after = self.same(path, name + ", finished")
        self.checks.check(name + ": no work is left", live_work(after))


def main():
    program, folder = sys.argv[1:3]
    failed = 0
    for kind in ("sqlite", "jsonl"):
        exchange = Exchange(Perdure(program), Peer(), folder, kind)
        exchange.both_ways()
        exchange.lacking()
        checks = exchange.checks
        print("%s: %d passed, %d failed" % (kind, checks.passed, checks.failed))
        failed += checks.failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
