"""pi-durable-python's side of the exchange of stores, through its public API.

    peer.py write STORE SCENARIOS NAME    plays a scenario; may end in the middle by os._exit
    peer.py dump STORE                    prints all that the store holds as JSON
    peer.py open STORE SCENARIOS          takes over unfinished work without going on with it
    peer.py resume STORE SCENARIOS        goes on with unfinished work and waits until it is idle

A store whose name ends with .jsonl is a folder of JSON lines, any other one a SQLite file.
"""

import asyncio
import json
import os
import sqlite3
import sys
import time

from pi_durable import (GenerationTask, Harness, Model, ToolTask, create_registry, define_doc,
                        define_doc_family, define_extension, define_task, define_tool, hook)
from pi_durable.context import BACKGROUND_CONTEXT as BG, await_with_context
from pi_durable.errors import ConversationBusy
from pi_durable.env.posix import PosixExecutionEnv
from pi_durable.providers.stream import ProviderStream, complete_stream
from pi_durable.providers.usage import zero_usage
from pi_durable.storage.jsonl import JsonlStorage
from pi_durable.storage.sqlite.posix import open_posix_sqlite_database
from pi_durable.storage.sqlite.storage import SqliteStorage

MODEL = Model(provider="scripted", model_id="one", context_window=1_000_000, max_tokens=1_000)
REFERENCE = {"provider": "scripted", "modelId": "one"}
DIED = 99


# The model: it does what the last user message says, a JSON array of turns.


class Answer(ProviderStream):
    """A turn that plays; `fetched` is one that was deferred, with the number of its attempt."""

    def __init__(self, models, context, options, fetched=None):
        self._models, self._context, self._fetched = models, context, fetched
        self._gate = models.events.gate
        output = {"role": "assistant", "content": [], "api": "scripted", "provider": "scripted",
                  "model": "one", "usage": zero_usage(), "stopReason": "stop",
                  "timestamp": int(time.time() * 1000)}
        super().__init__(output, signal=(options or {}).get("signal"))

    async def _produce(self):
        if self._fetched is not None:
            turn, times = self._fetched
        else:
            turn, times = self._models.turn(self._context["messages"])
            # A process that goes on with a run was asked once before it.
            times += 0 if self._models.hangs else 1
        content = self.output["content"]
        self.emit("start")
        if "defer" in turn:
            rest = {**turn["defer"], "times": turn["defer"]["times"] - 1}
            self.output["stopReason"] = "deferred"
            self.output["deferred"] = {"pollAfterMs": rest["pollAfterMs"], "attempt": times, "turn": {
                **{key: value for key, value in turn.items() if key != "defer"},
                **({"defer": rest} if rest["times"] > 0 else {})}}
            self.emit("done", reason="deferred", message=self.output)
            return
        if "think" in turn:
            content.append({"type": "thinking", "thinking": turn["think"], "thinkingSignature": "signed"})
            self.emit("thinking_start", content_index=0)
        if "say" in turn:
            content.append({"type": "text", "text": ""})
            index = len(content) - 1
            self.emit("text_start", content_index=index)
            for piece in turn["say"]:
                content[index]["text"] += piece
                self.emit("text_delta", content_index=index, delta=piece)
                await asyncio.sleep(0)
        if "usage" in turn:
            self.output["usage"] = turn["usage"]
        failure = turn.get("fail")
        if failure is not None and times <= failure["attempts"]:
            raise RuntimeError(failure["message"])
        for call in turn.get("calls", []):
            content.append({"type": "toolCall", **call})
            self.output["stopReason"] = "toolUse"
        if turn.get("hang") and self._models.hangs:
            if turn.get("summary"):
                self._models.events.arrive()
            await self._gate.wait()
        self.emit("done", reason=self.output["stopReason"], message=self.output)


class Models:
    def __init__(self, events):
        self.events, self.hangs = events, events.writing
        self._asked = {}

    def get_model(self, provider, model_id):
        return MODEL if (provider, model_id) == ("scripted", "one") else None

    def turn(self, messages):
        """The turn that is asked for, and how often this process has been asked for it."""
        position = 0
        for message in reversed(messages):
            if message["role"] == "assistant":
                position += 1
            elif message["role"] == "user":
                try:
                    turns = json.loads(message["content"])
                except (TypeError, ValueError):
                    # The request for a summary is no scenario.
                    return self.events.summary(), 0
                key = (position, message["content"])
                self._asked[key] = self._asked.get(key, 0) + 1
                return turns[position], self._asked[key]
        raise RuntimeError("nobody asked")

    def stream_simple(self, model, context, options=None):
        return Answer(self, context, options)

    stream = stream_simple

    async def complete_simple(self, model, context, options=None):
        return await complete_stream(self.stream_simple(model, context, options))

    complete = complete_simple

    async def fetch_deferred(self, model, handle, options=None):
        return await complete_stream(Answer(self, {}, options, (handle["turn"], handle["attempt"])))

    async def cancel_deferred(self, model, handle, options=None):
        pass


# The tools


class Events:
    """What has happened so far, for the steps that wait for it."""

    def __init__(self, writing):
        self.writing = writing
        self.waiting = 0
        self.queued = 0
        self.gate = asyncio.Event()
        self.reset()
        self._changed = asyncio.Event()
        self._summaries = []

    def reset(self):
        self.results, self.partial, self.sleeping, self.marked = 0, False, False, False
        self.summarized = False

    def release(self):
        """Lets those who wait now go on."""
        self.waiting = 0
        self.gate.set()
        self.gate = asyncio.Event()

    def plan(self, turns):
        """Says what the next summaries are."""
        self._summaries += turns

    def summary(self):
        return {**(self._summaries.pop(0) if self._summaries else {"say": ["a summary"]}), "summary": True}

    def arrive(self):
        self.waiting += 1
        self._changed.set()

    def observe(self, publication, _context):
        for change in publication["changes"]:
            value = change.get("value") or {}
            if change["type"] == "entry" and value["kind"] == "pi.tool-result":
                self.results += 1
            elif change["type"] == "task":
                self.sleeping |= value["state"]["status"] == "sleeping"
                self.summarized |= value["kind"] == "pi.compaction" and value["state"]["status"] == "terminal"
                self.marked |= value["abortRequested"]
            elif change["type"] == "document" and change["record"]["kind"] == "pi.inbox":
                self.queued = len(value.get("items", []))
            elif change["type"] == "document" and "message" in (value.get("generation") or {}):
                self.partial = True
        self._changed.set()

    async def wait(self, when):
        while not (self.waiting >= when.get("waiting", 0) and self.results >= when.get("results", 0)
                   and self.queued >= when.get("queued", 0)
                   and (self.partial or not when.get("partial"))
                   and (self.sleeping or not when.get("sleeping"))
                   and (self.summarized or not when.get("summarized"))
                   and (self.marked or not when.get("marked"))):
            self._changed.clear()
            await self._changed.wait()


def tools(declarations, events, effects):
    async def wait(args, api, context, details):
        if events.writing and "wait" in args:
            gate = events.gate
            # Returns once everything reported so far is committed.
            await api.details(details, BG)
            events.arrive()
            await await_with_context(gate.wait(), BG if args["wait"] == "deaf" else context)

    def lines(args):
        return "".join("line %d é 😀\n" % i for i in range(1, args["lines"] + 1))

    async def append(args, api, context):
        with open(effects, "a") as file:
            file.write(args["line"] + "\n")
        api.output("noted " + args["line"])
        await wait(args, api, context, {"waits": True})
        return {}

    async def fails(*_):
        raise RuntimeError("this tool fails")

    async def grumbles(_args, api, _context):
        api.output("not shown")
        usage = {**zero_usage(), "input": 5, "totalTokens": 5, "reasoning": 2}
        usage["cost"]["total"] = 0.5
        return {
            "output": [{"type": "text", "text": "no"},
                       {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
            "isError": True, "usage": usage, "details": {"deep": [1, 2.5, None, {"x": "y"}]},
            "diagnostics": [{"severity": "info", "code": "said", "message": "said"},
                            {"severity": "warn", "message": "line\nbreak"}],
        }

    async def pours(args, api, context):
        api.diagnostic({"severity": "warn", "code": "pour", "message": "pouring"})
        api.output(lines(args))
        await api.details({"poured": args["lines"]}, BG)
        await wait(args, api, context, {"poured": args["lines"]})
        return {}

    async def dumps(args, _api, _context):
        return {"output": [{"type": "text", "text": lines(args)}]}

    async def nests(_args, api, _context):
        await api.execute_tool("note", {"line": "nested", "wait": "yes"}, BG)
        return {}

    async def terminates(*_):
        return {"output": [{"type": "text", "text": "enough"}], "control": {"terminate": True}}

    async def controls(args, api, context):
        api.output("enough")
        await wait(args, api, context, {"waits": True})
        return {"control": args["control"]}

    async def owns(args, api, context):
        async def make(tx):
            return await tx.create_conversation({"ownership": {"kind": "task", "taskId": api.task_id}})

        await api.commit(make, BG)
        await wait(args, api, context, {"waits": True})
        return {}

    async def asks(args, api, context):
        """Lets a conversation of its own do the turns."""
        async def find(tx):
            found = (await tx.scan_conversations({"ownerTaskId": api.task_id}, 1))["items"]
            return found[0] if found else await tx.create_conversation(
                {"ownership": {"kind": "task", "taskId": api.task_id}})

        child = await api.conversation((await api.commit(find, context))["id"], context)
        submission = await child.submit({"type": "input", "content": compact(args["turns"]),
                                         "requestId": "task:%d" % api.task_id}, context)
        if args.get("leave"):
            return {"output": [{"type": "text", "text": "begun"}]}
        record = await submission.wait(context)
        if args.get("fail"):
            raise RuntimeError("this tool fails")
        return {"output": [{"type": "text", "text": record["status"] + " " + record.get("reason", "")}]}

    async def chains(args, api, context):
        """Makes calls of other tools, one after another or all at once, and leaves the last ones alone."""
        async def call(each):
            options = {key: each[key] for key in ("key", "progress") if key in each}
            result = await api.execute_tool(each["name"], each["arguments"], context, options)
            return {key: result[key] for key in ("structuredOutput", "isError", "details", "usage")
                    if result.get(key) is not None}

        if args.get("together"):
            results = await asyncio.gather(*[call(each) for each in args["calls"]])
        else:
            results = [await call(each) for each in args["calls"]]
        for each in args.get("left", []):
            api.execute_tool(each["name"], each["arguments"], context, {"key": each["key"]})
        while events.writing and events.waiting < len(args.get("left", [])):
            await asyncio.sleep(0.002)
        if args.get("fail"):
            raise RuntimeError("this tool fails")
        return {"output": [{"type": "text", "text": "%d results" % len(results)}], "details": {"results": results}}

    bodies = {"note": append, "once": append, "step": append, "fails": fails, "grumbles": grumbles,
              "pours": pours, "dumps": dumps, "nests": nests, "terminates": terminates, "owns": owns,
              "controls": controls, "extra": append, "asks": asks, "hires": asks, "chains": chains,
              "binds": chains}
    return [define_tool({**declaration, "execute": bodies[declaration["name"]]})
            for declaration in declarations]


GOES_ON = "go on: "


def on_yield(message, _runtime, _context):
    """Lets a run go on with what its answer says."""
    text = "".join(item["text"] for item in message["content"] if item["type"] == "text")
    return {"continue": text[len(GOES_ON):]} if text.startswith(GOES_ON) else None


def before_tool(call, _runtime, _context):
    """Blocks or changes a call whose line says so."""
    line = call["arguments"].get("line")
    if line == "blocked":
        return {"block": "not this line"}
    return {"arguments": {**call["arguments"], "line": "another"}} if line == "changed" else None


HOOKS = [hook(GenerationTask, {"onYield": on_yield}), hook(ToolTask, {"beforeTool": before_tool})]


async def idle(_task, runtime, _context):
    if runtime.models.hangs:
        await asyncio.sleep(600)
    await runtime.commit(lambda _tx: {
        "status": "terminal", "outcome": {"status": "completed", "result": None}}, BG)


# A kind of task that no other program knows.
FOREIGN = define_task({"name": "interop.foreign", "version": 1, "initial": lambda _input: {"phase": "idle"},
                       "phases": {"idle": idle}, "abort": idle})


# Playing


async def open_store(path):
    if path.endswith(".jsonl"):
        return await JsonlStorage.open(path, PosixExecutionEnv(), BG, None)
    return await SqliteStorage.open(await open_posix_sqlite_database(path), None)


# What a step can change of the settings.
SETTINGS = {"steeringMode": "steering_mode", "followUpMode": "follow_up_mode",
            "afterFailedRun": "after_failed_run", "toolExecution": "tool_execution"}


def first_settings():
    return {
        "compaction": {"enabled": False, "keep_recent_tokens": 1},
        "progress": {"partial_interval_ms": 0, "output_interval_ms": 0},
        "retry": {"base_delay_ms": 300},
    }


# What a step can change of the settings of summaries.
COMPACTION = {"enabled": "enabled", "keepRecentTokens": "keep_recent_tokens"}


def change_settings(settings, change):
    for name, value in change.items():
        if name == "compaction":
            settings[name] = {**settings[name], **{COMPACTION[key]: value[key] for key in value}}
        elif name == "retryDelayMs":
            settings["retry"] = {"base_delay_ms": value}
        else:
            settings[SETTINGS[name]] = value


async def open_harness(path, scenarios, events, settings=None):
    registry = create_registry()
    declarations = scenarios["tools"]
    registry.install(define_extension({
        "name": "interop", "tools": tools(declarations, events, path + ".effects"), "hooks": HOOKS}))
    if scenarios.get("more"):
        registry.install(define_extension({
            "name": "more", "tasks": [FOREIGN],
            "tools": tools(scenarios["more"], events, path + ".effects")}))
    harness = await Harness.open(await open_store(path), {
        "models": Models(events), "registry": registry,
        "on_report": lambda error, info: print("report:", info, repr(error), file=sys.stderr),
        "settings": lambda: settings or first_settings(),
    }, BG)
    return harness


# Documents


def tokens(scenarios):
    """The definitions of the documents by their kinds; all begin empty and never store a base."""
    result = {}
    for declaration in scenarios["documents"]:
        declaration = dict(declaration)
        define = define_doc_family if declaration.pop("family", False) else define_doc
        result[declaration["kind"]] = define(
            version=1, initial=lambda *_: {}, checkpoint_when=lambda *_: False, **declaration)
    return result


def arguments(token, change, conversation):
    owner = [conversation.id] if token.definition.scope == "conversation" else []
    return owner + ([change["key"]] if "key" in change else [])


async def edit(step, definitions, conversation):
    """One commit with an entry and the changes of documents."""
    async def change_all(tx):
        await tx.append_entry(conversation.id, {"kind": "interop.note", "data": step["entry"]})
        for change in step["edit"]:
            token = definitions[change["kind"]]
            place = arguments(token, change, conversation)
            if change.get("retire"):
                await tx.retire_doc(token, *place)
            if "set" in change:
                # A family wants a seed, which its definition here ignores.
                seed = [{}] if "key" in change else []
                draft = await tx.doc(token, *place, *seed)
                for key, value in change["set"].items():
                    draft[key] = value

    await conversation.commit(change_all, BG)


async def notes(conversation):
    """The entries of `edit` that a conversation sees, oldest first."""
    page = await conversation.entries({"order": "ascending"}, 100, None, BG)
    return [entry["id"] for entry in page["items"] if entry["kind"] == "interop.note"]


async def expect(step, definitions, harness, conversation):
    """Compares values of documents, as they are or as they were behind an entry."""
    seen = await notes(conversation)
    for wanted in step["expect"]:
        token = definitions[wanted["kind"]]
        place = arguments(token, wanted, conversation)
        if "at" in wanted:
            value = await harness.snapshot_as_of(token, *place, seen[wanted["at"]], BG)
        else:
            value = await harness.snapshot(token, *place, BG)
        if value != wanted["value"]:
            raise RuntimeError("%s instead of %s" % (json.dumps(value), json.dumps(wanted)))


async def placed(value, conversation):
    """A written entry whose targets, given as places in the transcript, are ids."""
    page = await conversation.entries({"order": "ascending"}, 100, None, BG)
    ids = [entry["id"] for entry in page["items"]]
    value = dict(value)
    if isinstance(value.get("head"), dict):
        value["head"] = ids[value["head"]["at"]]
    if "edits" in value:
        value["edits"] = [{**e, "target": ids[e["target"]["at"]]} if isinstance(e["target"], dict) else e
                          for e in value["edits"]]
    return value


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def submit(step, conversation):
    """Submits what a step says; one that is to be refused returns nothing."""
    if "write" in step:
        draft = {"type": "write", "entry": await placed(step["write"], conversation)}
    else:
        draft = {"type": "input", "content": compact(step["submit"])}
    draft.update({key: step[key] for key in ("requestId", "whenBusy", "entry") if key in step})
    wanted = {"conversation_busy": ConversationBusy, "request_id_conflict": ValueError}
    try:
        handle = await conversation.submit(draft, BG)
    except tuple(wanted.values()) as error:
        if isinstance(error, wanted.get(step.get("refused"), ())):
            return None
        raise
    if "refused" in step:
        raise RuntimeError("not refused: " + json.dumps(step))
    return handle


async def withdraw(step, harness, storage):
    """Withdraws a submission, given by its place among all, and compares what becomes of it."""
    found = await every(lambda c: storage.scan_submissions({}, 100, c, BG))
    outcome = await harness.abort_submission(found[step["withdraw"]]["id"], BG)
    if outcome != step["outcome"]:
        raise RuntimeError("%s instead of %s" % (outcome, json.dumps(step)))


async def write(path, scenarios, name):
    events = Events(True)
    settings = first_settings()
    harness = await open_harness(path, scenarios, events, settings)
    harness.subscribe_commits(events.observe)
    agent = {"agent": {"model": REFERENCE}}
    conversation = await harness.root(BG, agent)
    definitions = tokens(scenarios)
    last = None
    for step in scenarios["scenarios"][name]:
        if "configure" in step:
            await conversation.configure(step["configure"], BG)
        elif "create" in step:
            conversation = await harness.create_conversation({"ownership": {"kind": "ownerless"}, **agent}, BG)
        elif "edit" in step:
            await edit(step, definitions, conversation)
        elif "expect" in step:
            await expect(step, definitions, harness, conversation)
        elif "conversation" in step:
            conversation = await harness.conversation(step["conversation"], BG)
        elif "forkAt" in step:
            conversation = await conversation.fork(
                (await notes(conversation))[step["forkAt"]],
                {"ownership": {"kind": "ownerless"}, **agent}, BG)
        elif "fork" in step:
            page = await conversation.entries({}, 1, None, BG)
            conversation = await conversation.fork(
                page["items"][0]["id"], {"ownership": {"kind": "ownerless"}, **agent}, BG)
        elif "reset" in step:
            await conversation.reset(step["reset"], BG)
        elif "write" in step:
            await submit(step, conversation)
        elif "settings" in step:
            change_settings(settings, step["settings"])
        elif "withdraw" in step:
            await withdraw(step, harness, harness.storage)
        elif "release" in step:
            events.release()
        elif "answered" in step:
            await last.wait(BG)
        elif "idle" in step:
            await conversation.wait_for_idle(BG)
        elif "compact" in step:
            await conversation.compact(step.get("instructions"), BG)
        elif "summaries" in step:
            events.plan(step["summaries"])
        elif "task" in step:
            await conversation.commit(lambda tx: tx.create_task(
                FOREIGN, {}, {"ownership": {"kind": "conversation"}, "conversationId": conversation.id}), BG)
        else:
            events.reset()
            last = await submit(step, conversation)
        if "when" in step:
            await events.wait(step["when"])
            then = step["then"]
            if then == "abort":
                await conversation.abort(BG)
            if then == "abort and die":
                # An abort ends with the work that it ends; the mark comes first.
                aborting = asyncio.ensure_future(conversation.abort(BG))
                await events.wait({"marked": True})
            if then in ("die", "abort and die"):
                os._exit(DIED)
            if then == "go on":
                continue
        if "submit" in step and last:
            await last.wait(BG)
            events.waiting = 0
    await harness.wait_for_idle(BG)
    await harness.close(BG)


async def take_over(path, scenarios):
    harness = await open_harness(path, scenarios, Events(False))
    await harness.close(BG)


async def resume(path, scenarios):
    harness = await open_harness(path, scenarios, Events(False))
    harness.resume()
    await harness.wait_for_idle(BG)
    seen = await harness.inspect(BG)
    await harness.close(BG)
    left = [task for task in seen["tasks"]]
    if left or seen["submissions"]:
        print("unfinished:", json.dumps([left, seen["submissions"]], default=str))
        sys.exit(1)


# Reading


async def every(scan):
    items, cursor = [], None
    while True:
        page = await scan(cursor)
        items += page["items"]
        cursor = page.get("next")
        if cursor is None:
            return items


async def contexts(path, ids):
    """What the model would be shown of each conversation."""
    harness = await Harness.open(await open_store(path), {
        "models": Models(Events(False)), "registry": create_registry()}, BG)
    result = {}
    for id in ids:
        view = await (await harness.conversation(id, BG)).context(BG)
        result[str(id)] = view["messages"]
    await harness.close(BG)
    return result


async def counters_of(path):
    if path.endswith(".jsonl"):
        with open(os.path.join(path, "main.jsonl")) as file:
            last = [json.loads(line)["seq"] for line in file][-1]
        store = await open_store(path)
        next_id = await store.mint_id()
        await store.close(BG)
        return {"nextSequence": last + 1, "nextId": next_id}
    with sqlite3.connect(path) as database:
        next_id, next_sequence = database.execute(
            "SELECT next_id, next_seq FROM durable_metadata").fetchone()
    database.close()
    return {"nextSequence": int(next_sequence), "nextId": int(next_id)}


async def past(store, entry, sequence):
    """The documents with history of a conversation as they were behind an entry."""
    scope = {"kind": "conversation", "conversationId": entry["conversationId"]}
    rows = []
    for record in await every(lambda c: store.scan_documents({"scope": scope, "at": sequence}, 100, c, BG)):
        if record["history"] != "rewindable":
            continue
        address = {key: record[key] for key in ("kind", "scope", "key") if key in record}
        found = await store.find_document(address, sequence, BG)
        stored = await store.document(record["id"], sequence, BG)
        rows.append({"id": found["id"], "version": stored["version"], "value": stored["value"]})
    return rows


async def dump(path):
    counters = await counters_of(path)
    store = await open_store(path)
    conversations = await every(lambda c: store.scan_conversations({}, 100, c, BG))
    tasks = await every(lambda c: store.scan_tasks({}, 100, c, BG))
    submissions = await every(lambda c: store.scan_submissions({}, 100, c, BG))
    transcripts = {}
    scopes = [{"kind": "session"}]
    for conversation in conversations:
        id = conversation["id"]
        scopes.append({"kind": "conversation", "conversationId": id})
        entries = await every(lambda c: store.scan_entries(
            {"conversationId": id, "order": "ascending"}, 100, c, BG))
        marker = await store.find_latest_head_marker(id, None, BG)
        rows = []
        for entry in entries:
            lookup = await store.entry(id, entry["id"], BG)
            rows.append({"entry": entry, "commitSequence": lookup["commitSeq"],
                         "documents": await past(store, entry, lookup["commitSeq"])})
        transcripts[str(id)] = {"entries": rows, "head": marker and marker["id"]}
    found = []
    for record in submissions:
        if "requestId" in record:
            record = await store.submission_by_request(record["conversationId"], record["requestId"], BG)
        found.append(record)
    scopes += [{"kind": "task", "taskId": task["id"]} for task in tasks]
    documents = []
    for scope in scopes:
        for record in await every(lambda c: store.scan_documents({"scope": scope, "at": "current"}, 100, c, BG)):
            stored = await store.document(record["id"], "current", BG)
            row = {"record": record, "version": stored["version"], "value": stored["value"]}
            if record.get("history") == "rewindable":
                row["history"] = []
                for sequence in range(record["createdAt"], counters["nextSequence"]):
                    earlier = await store.document(record["id"], sequence, BG)
                    row["history"].append(earlier and earlier["value"])
            documents.append(row)
    await store.close(BG)
    return {"counters": counters, "conversations": conversations, "transcripts": transcripts,
            "tasks": tasks, "submissions": found, "documents": documents}


def main():
    command, path = sys.argv[1:3]
    if command == "dump":
        print(json.dumps(asyncio.run(dump(path))))
        return
    with open(sys.argv[3]) as file:
        scenarios = json.load(file)
    if command == "write":
        asyncio.run(write(path, scenarios, sys.argv[4]))
    elif command == "open":
        asyncio.run(take_over(path, scenarios))
    elif command == "resume":
        asyncio.run(resume(path, scenarios))


if __name__ == "__main__":
    main()
