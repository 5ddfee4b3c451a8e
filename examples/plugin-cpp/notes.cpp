// A plugin in C++ with one of each kind: it keeps notes and shows them to the model.
#include "perdure.hpp"

using namespace perdure;

static const char *const list = "example.notes-cpp.list";
static const char *const keep = "example.notes-cpp.keep";

// A tool: says what it does, begins a task that keeps the note, and waits for it.
static Json note(Call &call) {
  call.output("keeping the note\n");
  // The same after a crash, because the task remembers it.
  Json begun = call.memo("begun", call.now());
  Json task;
  Json committed = call.transaction([&](Tx &tx) {
    // A call that runs again after a crash finds what it had begun.
    auto tasks = tx.own_tasks(keep);
    if (tasks.empty())
      task = tx.create_task(keep, Json::object({{"text", call.argument("text")}}));
    else
      task = tasks.front()["id"];
  });
  if (task.is_text()) task = committed["ids"][task.text()];
  call.details(Json::object({{"task", task}}));

  Json result = call.wait_for_task(task.integer())["state"]["outcome"]["result"];
  std::string text = "note " + std::to_string(result["notes"].integer()) + " is kept";
  return Json::object(
      {{"output", Json::array({Json::object({{"type", "text"}, {"text", text}})})},
       {"details", Json::object({{"task", task}, {"begun", begun}})}});
}

// The two phases of the task. Each ends with a commit that says what is next.
static Commit wait_phase(Call &call) {
  return Commit().state(sleeping(Json::object({{"phase", "write"}}), call.now() + 50));
}

static Reply write_phase(Call &call) {
  call.transaction([&](Tx &tx) {
    Json &notes = tx.draft(list).member("notes");
    notes.push(call.task()["input"]["text"]);
    tx.state(completed(Json::object({{"notes", notes.size()}})));
  });
  return Reply::nothing();
}

// A section of the prompt, left out while there are no notes.
static Reply notes(Call &call) {
  auto document = call.document(list);
  if (!document) return Reply::nothing();
  std::string text = "Notes so far:";
  for (const Json &note : (*document)["notes"].items()) text += "\n- " + note.text();
  return text;
}

// A guard: refuses secrets, and has somebody asked about what is private.
static Json guard(Call &call) {
  std::string text = call.input()["call"]["arguments"]["text"].text_or("");
  if (text.find("secret") != std::string::npos) return deny("secrets do not belong into notes");
  if (text.find("private") != std::string::npos) return ask("private", "Keep a private note?");
  return pass();
}

// A wrap: cuts blanks off the argument, and says so.
static Json trim(Call &call) {
  std::string text = call.argument("text").text();
  std::string trimmed = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  trimmed.resize(trimmed.find_last_not_of(' ') + 1);
  if (trimmed == text) return call.next();
  Json result = call.next(Json::object({{"text", trimmed}}));
  result.member("diagnostics")
      .push(Json::object({{"severity", "info"}, {"message", "blanks were cut off the note"}}));
  return result;
}

static void setup(Plugin &plugin) {
  plugin.tool("note", note);
  plugin.task(keep, 1).phase("wait", wait_phase).phase("write", write_phase);
  plugin.section("notes", notes);
  plugin.hook("beforeTool", guard);
  plugin.wrap_tool("note", trim);
}

PERDURE_PLUGIN(R"({
  "manifest": 1, "id": "example.notes-cpp", "version": "1.0.0", "runtime": "c++",
  "description": "Keeps notes and shows them to the model.",
  "interfaces": {"required": ["perdure.calls/1", "perdure.invoke/1"]},
  "execution": {"blocking": true}, "permissions": {"approvals": true},
  "tools": [{"name": "note", "description": "Keeps a note for later prompts.", "replay": "safe",
             "parameters": {"type": "object", "required": ["text"],
                            "properties": {"text": {"type": "string"}}}}],
  "sections": [{"key": "notes"}],
  "hooks": [{"point": "beforeTool", "role": "guard", "tools": ["note"]}],
  "wraps": [{"tool": "note"}],
  "tasks": [{"type": "example.notes-cpp.keep", "version": 1, "phases": ["wait", "write"],
             "initial": {"phase": "wait"}}],
  "documents": [{"kind": "example.notes-cpp.list", "version": 1, "scope": "conversation",
                 "history": "latest", "fork": "current", "initial": {"notes": []},
                 "base": {"deltas": 32}}]
})", setup);
