"""Plays the same scenarios in Perdure and pi-durable-python and compares what becomes of them.

    differential.py INTEROP_PROCESS FOLDER [NAME...]

A scenario that dies in the middle is gone on with by the program that wrote it. Stores are compared
whole: ids are renumbered in the order in which they appear, parallel rounds are sets, and times,
`pi.provider` and the wording of messages that the programs invent are left out.
"""

import json
import os
import re
import sys

from check import HERE, Checks, Peer, Perdure, differences, live_work

# Members that hold times, or counts of commits.
TIMES = {"timestamp", "durationMs", "createdAt", "updatedAt", "retiredAt", "commitSequence", "startedAt", "endedAt", "until", "retryAt"}

# Members that hold ids, or lists of them.
REFERENCES = {"id", "conversationId", "byTaskId", "target", "head", "entry", "answer", "taskId", "owner",
              "parent", "at", "on", "inputs", "entryId", "tasks", "tools", "submissionId",
              "assistant"}

# What a submission says of a summary without which its run cannot go on.
NO_SUMMARY = re.compile(r"^(the conversation could not be made shorter|Compaction (failed|was aborted)).*$", re.DOTALL)

# Request ids that are made of the id of a task.
OF_TASK = re.compile(r"^(task|compaction):(\d+)$")

# What a summary says, between the words that each program puts around it.
SUMMARY = re.compile(r"<summary>\s*(.*?)\s*</summary>", re.DOTALL)


class Ids:
    """Gives each id the number of its first appearance."""

    def __init__(self):
        self._known = {}

    def renumbered(self, value, name=None):
        if isinstance(value, dict):
            # Arguments and data may have members of the same names.
            # The order of members says nothing; the id of a record comes before those that it names.
            return {key: value[key] if key in ("arguments", "data") else self.renumbered(value[key], key)
                    for key in sorted(value, key=lambda key: (key != "id", key))}
        if isinstance(value, list):
            return [self.renumbered(member, name) for member in value]
        if name in REFERENCES and isinstance(value, int) and not isinstance(value, bool):
            return "#%d" % self._known.setdefault(value, len(self._known) + 1)
        if name == "requestId" and OF_TASK.match(value):
            kind, id = OF_TASK.match(value).groups()
            return "%s:%s" % (kind, self.renumbered(int(id), "taskId"))
        return value


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(member) for key, member in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [without_times(member) for member in value]
    return value


def is_invented(message, entry):
    """Whether the text of a result is the program's own: it has a code, or tells of an error."""
    return any("code" in d and d["code"] not in ("said", "pour")
               for d in (entry.get("data") or {}).get("diagnostics", []))


def without_wording(entry):
    """An entry without the text that the programs word each in their own way."""
    entry = dict(entry)
    if "model" in entry:
        entry["model"] = [{**m, "content": "(wording)"} if m["role"] == "toolResult" and is_invented(m, entry)
                          else m for m in entry["model"]]
    if entry["kind"] == "pi.compaction":
        entry["model"] = [{**m, "content": [{**i, "text": SUMMARY.findall(i["text"])} for i in m["content"]]}
                          for m in entry["model"]]
    if isinstance(entry.get("data"), dict) and "diagnostics" in entry["data"]:
        entry["data"] = {**entry["data"], "diagnostics": [
            {**d, "message": "(wording)"} if d.get("code") not in ("said", "pour", None) else d
            for d in entry["data"]["diagnostics"]]}
    return entry


def without_null_details(entry):
    """An entry whose results say nothing instead of `details: null`."""
    if "model" not in entry:
        return entry
    return {**entry, "model": [{key: value for key, value in m.items() if key != "details" or value is not None}
                               for m in entry["model"]]}


def without_error_texts(task):
    """A task without the wording of its failure; what a provider said is in the submission."""
    error = (task["state"].get("outcome") or {}).get("error")
    if not isinstance(error, dict):
        return task
    return {**task, "state": {**task["state"], "outcome": {
        **task["state"]["outcome"], "error": {**error, "message": "(wording)"}}}}


def without_detail_texts(submission):
    """A submission without the wording of what the program itself says."""
    if "detail" not in submission or not isinstance(submission["detail"], str):
        return submission
    return {**submission, "detail": NO_SUMMARY.sub("(wording)", submission["detail"])}


def without_failure_texts(value):
    """The value of a document without the wording of why there is no summary."""
    if "compactionFailure" not in value:
        return value
    return {**value, "compactionFailure": {**value["compactionFailure"], "error": "(wording)"}}


def in_call_order(entries):
    """Entries in which the results of a round stand in the order of their calls."""
    entries, start = list(entries), 0
    while start < len(entries):
        end = start
        while end < len(entries) and entries[end]["kind"] == "pi.tool-result":
            end += 1
        entries[start:end] = sorted(entries[start:end], key=lambda e: e["model"][0]["toolCallId"])
        start = end + 1
    return entries


def outcome(dump):
    """What a store holds, in a form that does not depend on who wrote it."""
    ids = Ids()
    result = {"conversations": {}, "submissions": [], "tasks": [], "documents": []}
    for id in sorted(dump["transcripts"], key=int):
        rows = [row["entry"] for row in dump["transcripts"][id]["entries"]]
        result["conversations"][id] = [
            without_times(ids.renumbered(without_null_details(without_wording(entry)))) for entry in in_call_order(rows)]
    result["heads"] = [ids.renumbered({"head": dump["transcripts"][id]["head"]})
                       for id in sorted(dump["transcripts"], key=int)]
    result["records"] = without_times(ids.renumbered(dump["conversations"]))
    submissions = [without_detail_texts(each) for each in sorted(dump["submissions"], key=lambda s: s["id"])]
    result["submissions"] = without_times(ids.renumbered(submissions))
    tasks = [without_error_texts(task) for task in sorted(dump["tasks"], key=lambda t: t["id"])]
    result["tasks"] = without_times(ids.renumbered(tasks))
    rows = []
    for row in dump["documents"]:
        record = row["record"]
        if record["kind"] == "pi.provider":
            continue
        scope = without_times(record["scope"])
        rows.append([record["kind"], scope, record.get("key"), record.get("history"), record.get("fork"),
                     row["version"], without_failure_texts(row["value"])])
    rows.sort(key=lambda row: (row[0], json.dumps(row[1], sort_keys=True), row[2] or ""))
    result["documents"] = [without_times(ids.renumbered(row)) for row in rows]
    return result


class Differential:
    def __init__(self, programs, folder, scenarios):
        self.programs, self.folder, self.scenarios = programs, folder, scenarios
        self.checks = Checks()
        self.file = os.path.join(folder, "differential.json")
        with open(self.file, "w") as file:
            json.dump(scenarios, file)

    def played(self, program, name):
        """The store after a scenario, gone on with if it died; nothing if it did not end so."""
        path = os.path.join(self.folder, "differential-%s-%s.sqlite" % (name.replace(" ", "-"), program.name))
        dies = any("die" in step.get("then", "") for step in self.scenarios["scenarios"][name])
        about = "%s in %s" % (name, program.name)
        runs = [("write", path, self.file, name)] + ([("resume", path, self.file)] if dies else [])
        for arguments, status in zip(runs, [program.died if dies else 0, 0]):
            result = program.run(*arguments)
            if not self.checks.check(about + ": " + arguments[0], None if result.returncode == status else (
                    "status %s\n%s" % (result.returncode, result.stdout[-1000:] + result.stderr[-2000:]))):
                return None
        dump = program.dump(path)
        self.checks.check(about + ": the invariants hold", dump.pop("violations", None))
        self.checks.check(about + ": no task is left", [
            line for line in live_work(dump) if line.startswith("task")])
        return outcome(dump)

    def compare(self, name):
        mine, theirs = [self.played(program, name) for program in self.programs]
        if mine is None or theirs is None:
            return
        for part in sorted(mine):
            self.checks.check("%s: the same %s" % (name, part), differences(mine[part], theirs[part]))


def main():
    program, folder, *names = sys.argv[1:]
    with open(os.path.join(HERE, "scenarios.json")) as file:
        scenarios = json.load(file)
    with open(os.path.join(HERE, "differential.json")) as file:
        more = json.load(file)
    scenarios = {**scenarios, "tools": scenarios["tools"] + more["tools"], "scenarios": more["scenarios"]}
    differential = Differential([Perdure(program), Peer()], folder, scenarios)
    for name in names or scenarios["scenarios"]:
        differential.compare(name)
    checks = differential.checks
    print("differential: %d scenarios, %d passed, %d failed" % (
        len(names or scenarios["scenarios"]), checks.passed, checks.failed))
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
