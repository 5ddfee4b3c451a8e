// A host of a few hundred lines that plays the contract to a plugin and prints what it does, so that
// the kits for plugins are tested in seconds and without the real one.
//
//   host notes PLUGIN.so    the life of the example that keeps notes
//   host probe PLUGIN.so    what a kit does with handlers that go wrong
//   host refuse PLUGIN.so   an entry that cannot work
#include <dlfcn.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "perdure.hpp"

using perdure::Json;
using perdure::Value;

namespace {

std::string id_of_plugin;
std::atomic<bool> mute{false};

/// Prints a line in which the plugin's own id is ID, so that all languages print the same.
void say(std::string line) {
  if (mute) return;
  if (!id_of_plugin.empty())
    for (size_t at; (at = line.find(id_of_plugin)) != std::string::npos;)
      line.replace(at, id_of_plugin.size(), "ID");
  std::cout << line << std::endl;
}

[[noreturn]] void broken(const std::string &what) {
  std::cout << "BROKEN: " << what << std::endl;
  std::_Exit(1);
}

std::string text_of(const pdr_str &text) { return std::string(perdure::detail::view(text)); }

/// Copies a blob and releases it, as the contract says.
std::optional<Value> take(const pdr_blob *blob) {
  if (!blob) return std::nullopt;
  Value value{text_of(blob->media_type), ""};
  if (blob->len != PDR_ABSENT) value.bytes.assign(reinterpret_cast<const char *>(blob->ptr), blob->len);
  if (blob->release) blob->release(blob->owner);
  return value;
}

struct Completion {
  int32_t status = 1;
  std::optional<Value> value;
  std::string message, reason;
  uint32_t flags = 0;

  std::string line() const {
    if (status < 0)
      return "error " + std::to_string(status) + " flags " + std::to_string(flags) + ": " + message;
    if (!value) return "what was emitted";
    if (value->bytes.size() > 1000)
      return value->media_type + " of " + std::to_string(value->bytes.size()) + " bytes";
    return (value->media_type.empty() ? PDR_MEDIA_JSON : value->media_type) + " " + value->bytes;
  }
};

/// One call that the host has made.
struct HostCall {
  pdr_id id = 0;
  std::string target;
  Json input;
  int64_t task = 0;
  Completion completion;
  bool over = false, transaction = false;
  uint64_t credit = 131072;
  uint32_t cancelled = 0;
  pdr_cancel_fn on_cancel = nullptr;
  void *on_cancel_arg = nullptr;
};

struct Failure {
  int32_t code;
  std::string message, reason;
};

struct Host {
  std::recursive_mutex mutex;
  std::condition_variable_any news;
  std::map<pdr_id, std::shared_ptr<HostCall>> calls;
  std::vector<std::thread> threads;
  pdr_id next_id = 100;
  pdr_plugin plugin{};
  Json manifest;
  std::map<int64_t, Json> tasks;
  std::map<std::string, Json> documents, memos;
  std::map<std::string, std::vector<Json>> streams;
  int conflicts = 0;
  bool stopped = false;
  int open_requests = 0;
};

Host host;
using Lock = std::unique_lock<std::recursive_mutex>;

std::shared_ptr<HostCall> begin(const std::string &target, Json input, int64_t task = 0,
                                std::string raw = "");
Completion wait(std::shared_ptr<HostCall> call);
Completion run(const std::string &target, Json input, int64_t task = 0) {
  auto call = begin(target, std::move(input), task);
  return wait(call);
}

Json context(int64_t task) {
  return Json::object({{"conversation", 1}, {"task", task}, {"now", 1700000000000}, {"settings", 1}});
}

/* ---- the table of calls */

int32_t complete(void *, pdr_id id, int32_t status, const pdr_blob *blob, const pdr_err *err) {
  auto value = take(blob);
  Lock lock(host.mutex);
  auto found = host.calls.find(id);
  if (found == host.calls.end()) return PDR_E_STALE;
  if (found->second->over) {
    say("  a second answer to " + found->second->target);
    return PDR_E_STALE;
  }
  auto &call = *found->second;
  call.over = true;
  call.completion.status = status;
  call.completion.value = std::move(value);
  if (err) {
    call.completion.message = text_of(err->message);
    call.completion.flags = err->flags;
    if (err->code != status) broken("the code of an error is not the status");
    if (std::string detail = text_of(err->detail); !detail.empty())
      call.completion.reason = Json::parse(detail)["reason"].text_or("");
  }
  host.news.notify_all();
  return PDR_OK;
}

int32_t emit(void *, pdr_id id, const pdr_blob *blob) {
  auto value = take(blob);
  Lock lock(host.mutex);
  auto found = host.calls.find(id);
  if (found == host.calls.end() || found->second->over) return PDR_E_STALE;
  auto &call = *found->second;
  if (value->bytes.size() > call.credit) {
    say("  no credit for " + std::to_string(value->bytes.size()) + " bytes");
    return PDR_E_WOULD_BLOCK;
  }
  call.credit -= value->bytes.size();
  if (value->bytes.size() > 1000)
    say("  emits " + value->media_type + " of " + std::to_string(value->bytes.size()) + " bytes");
  else
    say("  emits " + (value->media_type.empty() ? PDR_MEDIA_JSON : value->media_type) + " " +
        Json(value->bytes).dump());
  return PDR_OK;
}

int32_t credit(void *, pdr_id id, uint64_t *left) {
  Lock lock(host.mutex);
  auto found = host.calls.find(id);
  if (found == host.calls.end() || found->second->over) return PDR_E_STALE;
  *left = found->second->credit;
  return PDR_OK;
}

uint32_t cancelled(void *, pdr_id id) {
  Lock lock(host.mutex);
  auto found = host.calls.find(id);
  if (found == host.calls.end() || found->second->over) return PDR_CANCEL_OBSOLETE;
  return found->second->cancelled;
}

int32_t on_cancel(void *, pdr_id id, pdr_cancel_fn fn, void *arg) {
  Lock lock(host.mutex);
  auto found = host.calls.find(id);
  if (found == host.calls.end() || found->second->over) return PDR_E_STALE;
  found->second->on_cancel = fn;
  found->second->on_cancel_arg = arg;
  host.news.notify_all();
  return PDR_OK;
}

/* ---- operations */

void advance(int64_t id);

/// Checks that the fields are those of the messages, which catches what a kit misspells.
void expect_fields(const std::string &op, const Json &input, std::set<std::string> known) {
  for (const auto &name : input.names())
    if (!known.count(name)) throw Failure{PDR_E_INVALID, op + " has no member " + name, "shape"};
}

std::string address(const Json &input) {
  return input["kind"].text() + (input.find("key") ? "/" + input["key"].text() : "");
}

Json initial(const std::string &kind) {
  for (const Json &document : host.manifest["documents"].items())
    if (document["kind"].text() == kind) return document["initial"];
  throw Failure{PDR_E_DENIED, "the kind " + kind + " is not the plugin's", "permission"};
}

Json commit(HostCall &call, const Json &input) {
  expect_fields("commit", input, {"tx", "steps", "state"});
  if (input.find("tx")) {
    call.transaction = false;
    if (host.conflicts > 0) {
      host.conflicts--;
      say("  conflict");
      throw Failure{PDR_E_STALE, "something that was read has changed", "conflict"};
    }
  }
  Json ids = Json::object();
  for (const Json &step : input["steps"].items()) {
    const std::string &what = step["do"].text();
    say("  step " + step.dump());
    if (what == "task.create") {
      int64_t id = 29 + static_cast<int64_t>(host.tasks.size());
      for (const Json &type : host.manifest["tasks"].items()) {
        if (type["type"].text() != step["type"].text()) continue;
        Json state = Json::object({{"status", "pending"}, {"checkpoint", type["initial"]}});
        host.tasks[id] = Json::object({{"id", id},
                                       {"conversationId", 1},
                                       {"kind", type["type"]},
                                       {"version", type["version"]},
                                       {"input", step["input"]},
                                       {"owner", call.task},
                                       {"state", state}});
      }
      if (!host.tasks.count(id)) throw Failure{PDR_E_INVALID, "no such task type", "not_found"};
      ids.set(step["as"].text(), id);
    } else if (what == "doc") {
      std::string place = address(step);
      if (!host.documents.count(place)) host.documents[place] = initial(step["kind"].text());
      Json &value = host.documents[place];
      if (const Json *written = step.find("value")) value = *written;
      for (const Json &op : step["ops"].items()) {
        // ["p", [name], index, 0, items] is all that the tests need.
        Json &list = value.member(op.at(1).at(0).text());
        auto at = list.items().begin() + op.at(2).integer();
        list.items().insert(at, op.at(4).items().begin(), op.at(4).items().end());
      }
    } else {
      throw Failure{PDR_E_INVALID, "no step " + what, "shape"};
    }
  }
  if (const Json *state = input.find("state")) {
    if (!host.tasks.count(call.task)) throw Failure{PDR_E_INVALID, "no task here", "not_here"};
    say("  state " + (*state)["status"].text() +
        ((*state)["status"].text() == "terminal" ? " " + (*state)["outcome"].dump() : ""));
    host.tasks[call.task].member("state") = *state;
  }
  return Json::object({{"seq", 1}, {"ids", ids}});
}

Value operation(HostCall &call, const std::string &op, const Json &input) {
  auto json = [](Json json) { return Value{PDR_MEDIA_JSON, json.dump()}; };
  Lock lock(host.mutex);
  if (call.transaction && op != "commit" && op != "tx.abort" && op != "log" && op != "clock" &&
      !input.find("tx"))
    throw Failure{PDR_E_INVALID, op + " in a transaction", "in_transaction"};
  if (op == "clock") return json(Json::object({{"now", 1700000000000}, {"monotonicNs", "5"}}));
  if (op == "timer.wait" || op == "barrier") return json(Json::object({{"now", 1700000000001}}));
  if (op == "random") return {PDR_MEDIA_BYTES, std::string("\x00\xff\x80", 3)};
  if (op == "output.flush") {
    call.credit = 131072;
    return json(Json::object());
  }
  if (op == "memo") {
    expect_fields(op, input, {"name", "candidate"});
    std::string name = std::to_string(call.task) + "/" + input["name"].text();
    if (input.find("candidate")) host.memos.emplace(name, input["candidate"]);
    if (!host.memos.count(name)) return json(Json::object());
    return json(Json::object({{"value", host.memos[name]}}));
  }
  if (op == "document.get") {
    expect_fields(op, input, {"kind", "of", "key", "tx", "asOf"});
    auto found = host.documents.find(address(input));
    if (found == host.documents.end()) return json(Json::object());
    return json(Json::object({{"value", found->second}, {"version", 1}, {"document", 50}}));
  }
  if (op == "tx.begin") {
    call.transaction = true;
    Json begun = Json::object({{"tx", "t1"}});
    if (host.tasks.count(call.task)) begun.set("task", host.tasks[call.task]);
    return json(begun);
  }
  if (op == "tx.abort") {
    call.transaction = false;
    say("  tx.abort");
    return json(Json::object());
  }
  if (op == "commit") return json(commit(call, input));
  if (op == "tasks.scan") {
    expect_fields(op, input, {"tx", "owner", "kind", "limit", "cursor", "order"});
    Json items = Json::array();
    for (auto &task : host.tasks)
      if (task.second["owner"].integer_or(0) == call.task &&
          (!input.find("kind") || input["kind"] == task.second["kind"]))
        items.push(task.second);
    return json(Json::object({{"items", items}}));
  }
  if (op == "task.wait") {
    int64_t id = input["task"].integer();
    lock.unlock();
    advance(id);
    lock.lock();
    return json(host.tasks[id]);
  }
  if (op == "next") {
    std::string inner = call.target.substr(5);
    Json arguments = input.find("arguments") ? input["arguments"] : call.input["arguments"];
    Json nested = call.input;
    nested.set("arguments", arguments);
    lock.unlock();
    say("  next " + arguments.dump());
    Completion completion = run(inner, nested, call.task);
    if (completion.status < 0) throw Failure{PDR_E_INTERNAL, completion.message, "tool_error"};
    return *completion.value;
  }
  if (op == "test.stream") {
    host.streams["s1"] = {Json(1), Json("two")};
    return json(Json::object({{"stream", "s1"}}));
  }
  if (op == "stream.next") {
    auto &items = host.streams[input["stream"].text()];
    if (items.empty())
      return json(Json::object({{"items", Json::array()}, {"end", Json::object({{"all", 2}})}}));
    Json first = items.front();
    items.erase(items.begin());
    return json(Json::object({{"items", Json::array({first})}}));
  }
  if (op == "test.parts") throw Failure{PDR_E_INVALID, "the parts came", "parts"};
  throw Failure{PDR_E_UNSUPPORTED, "this host does not know the operation " + op, "op"};
}

int32_t start(void *, pdr_id within, pdr_str name, const pdr_blob *blob, pdr_done done, void *arg,
              pdr_id *out) {
  auto value = take(blob);
  std::string op = text_of(name);
  Lock lock(host.mutex);
  if (op == "log") {
    if (done) broken("the tests log one-way");
    say("  logs " + Json::parse(value->bytes).dump());
    return PDR_OK;
  }
  if (op == "lifecycle.stopped") {
    host.stopped = Json::parse(value->bytes)["ticket"].text() == "77";
    host.news.notify_all();
    return PDR_OK;
  }
  if (!done) return PDR_E_INVALID;
  auto found = host.calls.find(within);
  if (found == host.calls.end() || found->second->over) return PDR_E_STALE;
  auto call = found->second;
  pdr_id request = ++host.next_id;
  if (out) *out = request;
  host.open_requests++;
  // A thread of the host with no lock held.
  host.threads.emplace_back([=] {
    pdr_blob result{};
    pdr_err err{};
    Value answer;
    Failure failure{0, "", ""};
    try {
      if (value && value->media_type == PDR_MEDIA_PARTS) {
        say("  " + std::to_string(value->bytes.size()) + " bytes of parts: " +
            Json(value->bytes.substr(0, 4)).dump());
        answer = operation(*call, op, Json::object());
      } else {
        answer = operation(*call, op, value ? Json::parse(value->bytes) : Json::object());
      }
    } catch (const Failure &error) {
      failure = error;
    } catch (const perdure::Error &error) {
      failure = {error.code, error.message, "shape"};
    }
    if (failure.code == 0) {
      result.size = sizeof result;
      result.ptr = reinterpret_cast<const uint8_t *>(answer.bytes.data());
      result.len = answer.bytes.size();
      result.media_type = perdure::detail::borrow(answer.media_type);
      done(arg, request, PDR_OK, &result, nullptr);
    } else {
      std::string detail = Json::object({{"reason", failure.reason}}).dump();
      err.size = sizeof err;
      err.code = failure.code;
      err.message = perdure::detail::borrow(failure.message);
      err.detail = perdure::detail::borrow(detail);
      done(arg, request, failure.code, nullptr, &err);
    }
    Lock lock(host.mutex);
    host.open_requests--;
    host.news.notify_all();
  });
  return PDR_OK;
}

int32_t cancel(void *, pdr_id) { return PDR_E_STALE; }

const pdr_calls_1 calls_table = {sizeof(pdr_calls_1), 0, nullptr, complete, emit, credit, cancelled,
                                 on_cancel};
const pdr_invoke_1 invoke_table = {sizeof(pdr_invoke_1), 0, nullptr, start, cancel};

const void *query(void *, pdr_str name, uint32_t min_size) {
  std::string id = text_of(name);
  if (id == PDR_CALLS_1 && min_size <= sizeof calls_table) return &calls_table;
  if (id == PDR_INVOKE_1 && min_size <= sizeof invoke_table) return &invoke_table;
  return nullptr;
}

/* ---- making calls */

std::shared_ptr<HostCall> begin(const std::string &target, Json input, int64_t task,
                                std::string raw) {
  auto call = std::make_shared<HostCall>();
  call->target = target;
  call->task = task;
  input.set("ctx", context(task));
  call->input = input;
  {
    Lock lock(host.mutex);
    call->id = ++host.next_id;
    host.calls[call->id] = call;
  }
  // What is borrowed ends with start: the plugin must have copied it.
  auto text = std::make_unique<std::string>(raw.empty() ? input.dump() : raw);
  auto name = std::make_unique<std::string>(target);
  pdr_blob blob{};
  blob.size = sizeof blob;
  blob.ptr = reinterpret_cast<const uint8_t *>(text->data());
  blob.len = text->size();
  pdr_call given{};
  given.size = sizeof given;
  given.id = call->id;
  given.target = perdure::detail::borrow(*name);
  given.input = &blob;
  int32_t code = host.plugin.start(host.plugin.state, &given);
  std::memset(text->data(), 'x', text->size());
  if (code < 0) {
    Lock lock(host.mutex);
    call->over = true;
    call->completion.status = code;
    call->completion.message = "refused";
  }
  return call;
}

Completion wait(std::shared_ptr<HostCall> call) {
  Lock lock(host.mutex);
  if (!host.news.wait_for(lock, std::chrono::seconds(20), [&] { return call->over; }))
    broken(call->target + " is not answered");
  return call->completion;
}

/// Runs the phases of a task until it is terminal.
void advance(int64_t id) {
  for (int round = 0; round < 10; round++) {
    Json task;
    {
      Lock lock(host.mutex);
      task = host.tasks[id];
    }
    if (task["state"]["status"].text() == "terminal") return;
    std::string phase = task["state"]["checkpoint"]["phase"].text();
    std::string target = "task:" + task["kind"].text() + "@1/" + phase;
    say("  " + target);
    auto call = begin(target, Json::object({{"task", task}, {"phase", phase}}), id);
    Completion completion = wait(call);
    if (completion.status < 0) broken(target + " failed: " + completion.message);
    Json last = completion.value ? completion.value->json() : Json::object();
    if (last.find("steps") || last.find("state")) {
      Lock lock(host.mutex);
      try {
        commit(*call, last);
      } catch (const Failure &failure) {
        broken(target + ": " + failure.message);
      }
    }
  }
  broken("a task does not end");
}

/// Waits until no request is open.
void settle() {
  Lock lock(host.mutex);
  if (!host.news.wait_for(lock, std::chrono::seconds(20), [] { return host.open_requests == 0; }))
    broken("requests are left");
}

/* ---- what the tests do */

void show(const std::string &what, const std::string &target, Json input, int64_t task = 0) {
  say("* " + what);
  Completion completion = run(target, std::move(input), task);
  settle();
  say("  " + completion.line() + (completion.reason.empty() ? "" : " (" + completion.reason + ")"));
}

Json tool(Json arguments) {
  return Json::object({{"callId", "c1"}, {"arguments", arguments}, {"replay", "safe"}});
}

Json before(const std::string &text) {
  Json arguments = Json::object({{"text", text}});
  Json call = Json::object({{"id", "c1"}, {"name", "note"}, {"arguments", arguments}});
  return Json::object({{"call", call},
                       {"tool", Json::object({{"extension", "x"}, {"replay", "safe"}})},
                       {"approvals", Json::array()}});
}

void notes() {
  std::string keep = id_of_plugin + ".keep";
  Json section = Json::object({{"agent", Json::object()}, {"shown", Json::object()}});
  // A call that was asked about owns the task of its approval.
  host.tasks[29] = Json::object({{"id", 29}, {"kind", "perdure.approval"}, {"owner", 20}});
  show("settings", "settings.changed",
       Json::object({{"settings", Json::object()}, {"revision", 1}, {"reason", "initial"}}));
  show("the self-test", "selftest", Json::object({{"reason", "check"}}));
  show("the section without notes", "section:notes", section);
  show("the guard lets pass", "hook:beforeTool", before("buy bread"));
  show("the guard refuses", "hook:beforeTool", before("my secret"));
  show("the guard asks", "hook:beforeTool", before("my private life"));
  host.conflicts = 1;
  show("a note with blanks, a conflict on the way", "wrap:tool:note",
       tool(Json::object({{"text", "  buy bread "}})), 20);
  show("the same again after a crash", "tool:note", tool(Json::object({{"text", "buy bread"}})), 20);
  show("a note without blanks", "wrap:tool:note",
       tool(Json::object({{"text", "caf\u00e9 \"x\" \\ \n\U0001F600"}})), 21);
  show("the section with notes", "section:notes", section);
  show("an aborted task", "task.abort:" + keep + "@1", Json::object({{"task", host.tasks[30]}}), 30);
  show("an unknown target", "hook:other", Json::object());
  // Some look at the input at once, others when they need it.
  mute = true;
  Completion junk = wait(begin("tool:note", Json(), 23, "{\"arguments\": "));
  settle();
  mute = false;
  say(std::string("* input that is no JSON: ") + (junk.status < 0 ? "an error" : "taken"));
}

void probe() {
  Json none = tool(Json::object());
  Json odd = Json::parse(
      R"({"z": 9007199254740993, "a": -0.10, "big": 123456789012345678901234567890, "lone": "\ud83d x",)"
      R"( "pair": "\ud83d\ude00", "escape": "\u0001\"\\\/", "list": [[], {}, null, true]})");
  show("an error of the kit", "tool:fail", none);
  show("an error for the model", "tool:visible", none);
  show("an error of the language", "tool:standard", none);
  show("a throw or a panic", "tool:throw", none);
  show("a call that is dropped", "tool:drop", none);
  show("an answer from another thread", "tool:later", none);
  show("a chain of continuations", "tool:chain", none, 20);
  show("a continuation that fails", "tool:chainfail", none, 20);
  show("waiting where that is not allowed", "tool:nowait", none, 20);
  host.conflicts = 4;
  show("four conflicts", "tool:conflict", none, 20);
  host.conflicts = 5;
  show("five conflicts", "tool:conflict", none, 20);
  show("a read after a write", "tool:rewrite", none, 20);
  show("a body that throws", "tool:txthrow", none, 20);
  show("much output", "tool:output", none);
  show("a long answer", "tool:long", none);
  show("what was emitted", "tool:emitted", none);
  show("a stream", "tool:stream", none);
  show("parts", "tool:parts", none);
  show("bytes", "tool:bytes", none);
  show("an unknown operation", "tool:unknown", none);
  show("values go through", "tool:echo", tool(odd));
  say("* a cancelled call");
  auto call = begin("tool:cancel", none);
  pdr_cancel_fn fn = nullptr;
  {
    Lock lock(host.mutex);
    if (!host.news.wait_for(lock, std::chrono::seconds(20), [&] { return call->on_cancel; }))
      broken("on_cancel is not called");
    call->cancelled = PDR_CANCEL_DEADLINE;
    fn = call->on_cancel;
  }
  fn(call->on_cancel_arg, call->id, PDR_CANCEL_DEADLINE);
  say("  " + wait(call).line());
  // It may begin while the call is answered, and finds nothing then.
  fn(call->on_cancel_arg, call->id, PDR_CANCEL_DEADLINE);
  pdr_call small{};
  small.size = 8;
  say("* a call that is too small: " + std::to_string(host.plugin.start(host.plugin.state, &small)));
}

std::string manifest_of(const std::string &path) {
  char name[] = "/tmp/perdure-manifest-XXXXXX";
  int file = mkstemp(name);
  if (file < 0) broken("there is no room for the manifest");
  close(file);
  std::string command = "objcopy --dump-section .perdure.manifest=" + std::string(name) + " '" +
                        path + "' /dev/null";
  int status = std::system(command.c_str());
  std::string text;
  if (FILE *stream = std::fopen(name, "r")) {
    for (int c; (c = std::fgetc(stream)) != EOF;) text.push_back(static_cast<char>(c));
    std::fclose(stream);
  }
  unlink(name);
  if (status != 0) broken("objcopy cannot read " + path);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

/// Enters the plugin with such a host and says what comes of it.
int32_t enter(void *library, pdr_host given, uint32_t size, pdr_plugin &plugin) {
  auto entry = reinterpret_cast<decltype(&perdure_plugin_1)>(dlsym(library, PDR_ENTRY_SYMBOL));
  if (!entry) broken("there is no " PDR_ENTRY_SYMBOL);
  char text[200];
  pdr_errbuf err{};
  err.size = sizeof err;
  err.buf = reinterpret_cast<uint8_t *>(text);
  err.cap = sizeof text;
  plugin = {};
  plugin.size = size;
  int32_t code = entry(&given, &plugin, &err);
  if (code < 0) say("* refused " + std::to_string(code) + ": " + std::string(text, err.len));
  return code;
}

}  // namespace

#ifdef HOST_IN_SWIFT
#include "host.h"
int host_main(int count, char **words) {
#else
int main(int count, char **words) {
#endif
  if (count != 3) {
    std::cerr << "usage: host notes|probe|refuse PLUGIN.so\n";
    return 2;
  }
  std::string what = words[1], path = words[2];
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) broken(dlerror());
  pdr_host given{sizeof(pdr_host), PDR_ABI_MINOR, nullptr, query};
  if (what == "refuse") return enter(library, given, sizeof(pdr_plugin), host.plugin) < 0 ? 0 : 1;
  host.manifest = Json::parse(manifest_of(path));
  id_of_plugin = host.manifest["id"].text();

  pdr_plugin other;
  pdr_host empty = given;
  empty.query = [](void *, pdr_str, uint32_t) -> const void * { return nullptr; };
  if (enter(library, empty, sizeof other, other) >= 0) broken("it needs no tables");
  if (enter(library, given, 16, other) >= 0) broken("it takes a struct that is too small");
  if (enter(library, given, sizeof other, host.plugin) < 0) return 1;
  if (host.plugin.activate && host.plugin.activate(host.plugin.state, nullptr) < 0)
    broken("it does not activate");
  if (what == "notes") notes();
  if (what == "probe") probe();
  if (host.plugin.deactivate) {
    if (host.plugin.deactivate(host.plugin.state, 77, 0) < 0) broken("it does not deactivate");
    Lock lock(host.mutex);
    if (!host.news.wait_for(lock, std::chrono::seconds(20), [] { return host.stopped; }))
      broken("it does not stop");
    say("* stopped");
  }
  {
    settle();
    Lock lock(host.mutex);
    for (auto &call : host.calls)
      if (!call.second->over) broken(call.second->target + " is left");
  }
  for (auto &thread : host.threads) thread.join();
  if (host.plugin.destroy) host.plugin.destroy(host.plugin.state);
  say("* destroyed");
  return 0;
}
