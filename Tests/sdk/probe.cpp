// Handlers that go wrong, and the parts of perdure.hpp that the example does not use.
#include <stdexcept>
#include <thread>

#include "perdure.hpp"

using namespace perdure;

static void setup(Plugin &plugin) {
  plugin.tool("fail", [](Call &) -> Json {
    throw Error(PDR_E_BUSY, "not now", Json::object({{"reason", "limit"}}), PDR_ERR_RETRYABLE);
  });
  plugin.tool("visible", [](Call &) -> Json { throw failure("the file is not there"); });
  plugin.tool("standard", [](Call &) -> Json { throw std::runtime_error("no luck"); });
  plugin.tool("throw", [](Call &) -> Json { throw 5; });
  plugin.tool("drop", [](Call &) {});
  plugin.tool("later", [](Call &call) {
    std::thread([call]() mutable {
      call.log("info", "on another thread");
      call.answer("from another thread");
    }).detach();
  });
  plugin.tool("chain", [](Call &call) {
    call.memo("m", 7, [call](Result<Json> memo) mutable {
      Json value = memo.get();
      call.document("test.probe.list", {}, [call, value](Result<std::optional<Json>> document) mutable {
        std::string found = document.get() ? "a document" : "no document";
        call.wait(1, [call, value, found](Result<Json>) mutable {
          call.commit(Commit(), [call, value, found](Result<Json> result) mutable {
            call.answer(value.dump() + ", " + found + ", " + std::to_string(result.get()["ids"].size()) + " ids");
          });
        });
      });
    });
  });
  plugin.tool("chainfail", [](Call &call) {
    call.next(std::nullopt, [call](Result<Json>) -> void { throw failure("the continuation fails"); });
  });
  plugin.tool("nowait", [](Call &call) { return call.memo("m", 1); });
  plugin.tool("conflict", [](Call &call) -> Reply {
    int runs = 0;
    try {
      call.transaction([&](Tx &tx) {
        runs++;
        tx.own_tasks("none");
      });
    } catch (Error &error) {
      throw failure(std::to_string(runs) + " runs: " + error.reason());
    }
    return std::to_string(runs) + " runs";
  });
  plugin.tool("rewrite", [](Call &call) {
    return call.transaction([&](Tx &tx) {
      tx.step(Json::object({{"do", "x"}}));
      tx.own_tasks("none");
    });
  });
  plugin.tool("txthrow", [](Call &call) {
    return call.transaction([&](Tx &) { throw failure("the body fails"); });
  });
  plugin.tool("output", [](Call &call) {
    std::string text = "x";
    for (int i = 0; i < 66000; i++) text += "\u00e9";
    call.output(text);
    call.output_bytes(std::string(70000, '\xff'));
    call.diagnostic("warn", "careful");
    return "done";
  });
  plugin.tool("long", [](Call &) { return std::string(100000, 'y'); });
  plugin.tool("emitted", [](Call &call) {
    call.output("all");
    return Reply::emitted();
  });
  plugin.tool("stream", [](Call &call) {
    std::string seen;
    {
      auto stream = call.stream("test.stream");
      while (auto item = stream.next()) seen += item->dump() + " ";
      seen += stream.end().dump();
    }
    auto left = call.stream("test.stream");
    return seen;
  });
  plugin.tool("parts", [](Call &call) {
    return call.invoke("test.parts", Message::with_parts(Json::object({{"bytes", Json::object({{"part", 1}})}}), {"abc", "0123456789"}));
  });
  plugin.tool("bytes", [](Call &call) {
    return std::to_string(call.request("random", Json::object({{"bytes", 3}})).bytes.size()) + " bytes";
  });
  plugin.tool("unknown", [](Call &call) { return call.invoke("no.such"); });
  plugin.tool("echo", [](Call &call) { return call.arguments(); });
  plugin.tool("cancel", [](Call &call) {
    call.on_cancel([call](uint32_t reason) mutable {
      call.answer("cancelled for " + std::to_string(reason) + ", " + std::to_string(call.cancelled()));
    });
  });
  plugin.on_activate([&plugin] { plugin.log("info", "activated"); });
  plugin.on_deactivate([](Stop stop) { std::thread([stop] { stop.stopped(); }).detach(); });
}

PERDURE_PLUGIN(R"({"manifest": 1, "id": "test.probe", "version": "1.0.0", "runtime": "c++",
  "execution": {"blocking": true}, "tools": [
  {"name": "fail", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "visible", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "standard", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "throw", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "drop", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "later", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "chain", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "chainfail", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "nowait", "blocking": false, "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "conflict", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "rewrite", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "txthrow", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "output", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "long", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "emitted", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "stream", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "parts", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "bytes", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "unknown", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "echo", "description": "Tries.", "parameters": {"type": "object"}},
  {"name": "cancel", "description": "Tries.", "parameters": {"type": "object"}}],
  "documents": [{"kind": "test.probe.list", "version": 1, "scope": "session", "initial": {},
                 "base": "always"}]})", setup);
