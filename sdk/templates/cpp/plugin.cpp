// @NAME@: a plugin for Perdure. What the classes do stands in @SDK_FOLDER@/perdure.hpp.
#include "perdure.hpp"

using namespace perdure;

// The tool: the schema in the manifest below has checked that name is a string.
static Reply greet(Call &call) {
  std::string name = call.argument("name").text();
  if (name.empty() || name.size() > 255) throw failure("the name must have from 1 to 255 bytes");
  return "Hello, " + name + "!";
}
//@if section

// A section of the prompt: what the model is told beside its tools.
static Reply section(Call &) { return "Whoever is greeted is greeted by name."; }
//@end
//@if guard

// A guard: is asked before each call of the tool, and may say no. If it fails, the call is denied.
static Json guard(Call &call) {
  const Json &name = call.input()["call"]["arguments"]["name"];
  return name.text_or("") == "nobody" ? deny("nobody must not be greeted") : pass();
}
//@end
//@if wrap

// A wrap: runs around the tool, and may change what goes in and what comes out.
static Json wrap(Call &call) {
  if (call.argument("name").text() != "world") return call.next();
  return call.next(Json::object({{"name", "World"}}));
}
//@end
//@if task

static const char *const greeting = "@ID@.greeting";

// A tool that begins a durable task and waits for it. After a crash the task goes on where it was, and
// the call, which runs again, finds it.
static Reply greet_later(Call &call) {
  Json task;
  Json committed = call.transaction([&](Tx &tx) {
    std::vector<Json> found = tx.own_tasks(greeting);
    task = found.empty() ? Json(tx.create_task(greeting, Json::object({{"name", call.argument("name")}})))
                         : found[0]["id"];
  });
  if (task.is_text()) task = committed["ids"][task.text()];
  return call.wait_for_task(task.integer())["state"]["outcome"]["result"]["text"].text();
}

// The phases of the task. Each ends with a commit of what comes next; a crash repeats it from its
// beginning. This one rests for 50 ms, and could for a month: a task that sleeps needs no process.
static Commit rest(Call &call) {
  return Commit().state(sleeping(Json::object({{"phase", "greet"}}), call.now() + 50));
}

static Commit greet_at_last(Call &call) {
  std::string name = call.task()["input"]["name"].text();
  return Commit().state(completed(Json::object({{"text", "Hello, " + name + " at last!"}})));
}
//@end

static void setup(Plugin &plugin) {
  plugin.tool("@NAME@", greet);
//@if section
  plugin.section("@NAME@", section);
//@end
//@if guard
  plugin.hook("beforeTool", guard);
//@end
//@if wrap
  plugin.wrap_tool("@NAME@", wrap);
//@end
//@if task
  plugin.tool("@NAME@-later", greet_later);
  plugin.task(greeting, 1).phase("rest", rest).phase("greet", greet_at_last);
//@end
}

PERDURE_PLUGIN(R"(
//@include manifest.json
)", setup);
