import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What comes back from calls, of tools that keep the contract and of those that do not.
@Suite(.bothPlaces) struct CallTests {
  @Test func `a tool answers with text`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("echo", ["text": "h\u{E9}llo \"you\""]) == "héllo \"you\"")
    }
  }

  @Test func `the input is what the message layer says`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let window = OutputWindowHint(
        maxBytes: 1,
        maxLines: 2,
        minIntervalMs: 3,
        bytesPerSecond: 4
      )
      let result = try await bench.call("echo", ["n": 1], recovered: true, window: window)
      let input = try JSON(parsing: #require(result.output?.first?["text"]?.text))
      #expect(
        input.object?.keys == [
          "ctx", "callId", "arguments", "replay", "recovered", "outputWindow",
        ]
      )
      #expect(input["ctx"]?["conversation"] == 1)
      #expect(input["ctx"]?["task"] == 2)
      #expect(input["callId"] == "call-1")
      #expect(input["replay"] == "safe")
      #expect(input["outputWindow"]?["bytesPerSecond"] == 4)
    }
  }

  @Test func `a completion from another thread counts`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("from_thread") == "from a thread")
    }
  }

  @Test func `the first of two completions counts and the second is stale`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("twice") == "first")
      #expect(try await bench.text("codes") == "0 -3")
      #expect(
        bench.reports.strikes == [
          "plugin test.adversary completed a call that was over; the answer was dropped"
        ]
      )
    }
  }

  @Test func `everything about a finished call is stale`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("stale") == "first")
      #expect(try await bench.text("codes") == "-3 -3 -3 6 -3 -3")
    }
  }

  @Test(arguments: [
    ("text_utf8", "invalid UTF-8", -8), ("utf8", "invalid UTF-8", -8),
    ("json", "invalid JSON: expected a value, found the end of the text at byte 12", -8),
    ("keys", "invalid JSON: ", -8), ("deep", "invalid JSON: nesting is deeper than 128", -8),
    ("array", "JSON that is no object", -7),
    ("shape", "a content item that is neither text nor image at /output/0", -7),
    ("error_type", "a value that is not true or false at /isError", -7),
    ("must", "a member in \"must\" that this version does not know (future) at /must", -7),
    ("null", "a null pointer with a length of 100 bytes", -8),
    ("huge", "more than 16777216 bytes", -8), ("limit", "more than 16777216 bytes", -8),
    ("media", "the media type application/cbor, which is not accepted here", -8),
    ("bytes", "the media type application/octet-stream, which is not accepted here", -8),
    ("parts", "parts that do not add up: the beginning is not that of parts", -8),
    ("positive", "a positive status (5)", -7), ("flags", "a struct whose flags", -10),
    ("error_utf8", "invalid UTF-8", -8),
  ])
  func `junk fails the call with a sentence`(
    kind: String,
    phrase: String,
    code: Int
  ) async throws {
    try await PluginBench.adversary { (bench) async throws in
      let error = await bench.failure("junk", ["kind": .string(kind)])
      let sentence = "plugin test.adversary answered tool junk with \(phrase)"
      #expect(error?.message.hasPrefix(sentence) == true, "\(String(describing: error))")
      #expect(error?.code == "tool_error")
      #expect(bench.reports.strikes.count == 1)
      #expect(try await bench.text("codes") == "\(code)")
    }
  }

  @Test func `no bytes at all are an empty result`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.call("junk", ["kind": "nothing"]) == ToolResult())
    }
  }

  @Test func `a struct that is smaller than ours counts as zero behind its end`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.call("junk", ["kind": "small_struct"]).isError)
    }
  }

  @Test func `an error for the user reaches the model`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let error = await bench.failure("fail", ["flags": 8])
      #expect(error?.message == "the disk is full")
      #expect(error?.code == "tool_error")
      #expect(error?.details?["detail"]?["reason"] == "tool_error")
    }
  }

  @Test func `an error that is not for the user is only reported`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let error = await bench.failure("fail", ["flags": 0])
      #expect(error?.description == "tool fail of plugin test.adversary failed (internal)")
      #expect(bench.reports.messages("plugin_error").first?.hasSuffix("the disk is full") == true)
    }
  }

  @Test func `a refused call is a failure and no strike`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let error = await bench.failure("refuse")
      #expect(
        error?.message == "plugin test.adversary refused the call of tool refuse (denied)"
      )
      #expect(bench.reports.strikes.isEmpty)
    }
  }

  /// Runs a tool that stays in `start` for 600 ms, twice; returns what is reported.
  private func linger(_ tool: String) async throws -> Reports {
    let clock = ManualClock()
    let bench = try await PluginBench.load(Fixtures.plugin("adversary"), clock: clock)
    for _ in 0..<2 {
      let host = FakeHost(time: clock)
      let task = Task { try await bench.call(tool, host: host) }
      await host.whenReady()
      clock.advance(by: .milliseconds(600))
      task.cancel()
      _ = try await task.value
    }
    // Returns when the plugin's code has, so that there is nothing more to come.
    #expect(await bench.plugin.close() == [])
    return bench.reports
  }

  @Test func `a tool that blocks without saying so is reported once`() async throws {
    let reports = try await linger("linger")
    #expect(
      reports.messages("plugin_slow_start") == [
        "tool linger of plugin test.adversary took 600 ms to begin, and 50 ms are allowed; "
          + "say \"blocking\": true in its manifest, or work on a thread"
      ]
    )
    #expect(reports.strikes.isEmpty)
  }

  @Test func `a tool that says that it blocks may`() async throws {
    #expect(try await linger("poll").messages("plugin_slow_start").isEmpty)
  }

  @Test func `a tool that only the manifest names fails with a sentence`() async throws {
    let source = URL(filePath: try Fixtures.folder()).appending(path: "misnamed.c")
    let text = #"""
      #include "perdure_easy.h"
      PDR_PLUGIN_NOTE("c");
      PDR_MANIFEST("{\"manifest\":1,\"id\":\"a\",\"version\":\"1.0.0\",\"runtime\":\"c\","
                   "\"tools\":[{\"name\":\"count\",\"description\":\"\","
                   "\"parameters\":{\"type\":\"object\"}}]}");
      static int32_t count(pdr_easy_call *call) { return pdr_easy_answer(call, ""); }
      PDR_EASY_PLUGIN({"cuont", count})
      """#
    try Data(text.utf8).write(to: source)
    try await PluginBench.with(Fixtures.plugin(source: source, flags: [])) { (bench) async throws in
      #expect(
        await bench.failure("count")?.message
          == "the manifest names a tool that PDR_EASY_PLUGIN lacks"
      )
    }
  }

  @Test func `a refusal after a completion changes nothing`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("refuse_after") == "done")
    }
  }

  @Test func `a busy plugin is asked again`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("busy") == "3")
    }
  }

  @Test func `blobs are released once each, taken or not`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("blob") == "blob")
      #expect(try await bench.text("blob", ["again": true]) == "3")
    }
  }

  @Test func `a tool with one permit runs one call at a time`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let most = try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<8 { group.addTask { try await bench.text("single") } }
        return try await group.reduce(into: Set<String>()) { $0.insert($1) }
      }
      #expect(most == ["1"])
    }
  }

  @Test func `many calls run beside each other and keep apart`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      try await withThrowingTaskGroup(of: (Int, String).self) { group in
        for number in 0..<200 {
          group.addTask { (number, try await bench.text("echo", ["text": "n\(number)"])) }
        }
        for try await (number, text) in group { #expect(text == "n\(number)") }
      }
    }
  }

  @Test func `a thousand calls one after another reuse their slots`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      for _ in 0..<1_500 { _ = try await bench.call("echo", ["text": "x"]) }
    }
  }
}
