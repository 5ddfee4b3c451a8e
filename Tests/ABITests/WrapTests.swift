import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Wraps of plugins around tools and sections.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct WrapTests {
  /// Collects the arguments of calls.
  private final class Calls: Sendable {
    private let all = Mutex<[String]>([])
    var seen: [String] { all.withLock { $0 } }
    func add(_ text: String) { all.withLock { $0.append(text) } }
  }

  private static let wraps: JSONObject = ["wraps": [["tool": "work"]]]

  /// Runs "go" with one wrap around `work`, whose step is given; also returns what the tool got.
  private func run(
    _ step: JSON,
    bench: ScriptedBench = ScriptedBench(),
    wraps: JSONObject = wraps,
    work: @escaping Tool.Execute = { .text("did \($0.arguments.compactText)") }
  ) async throws -> (run: ScriptedBench.Run, calls: [String]) {
    let calls = Calls()
    let plugin = try await bench.plugin(wraps, script: ["wrap:tool:work": step])
    let tool = ScriptedBench.work { call in
      calls.add(call.arguments.compactText)
      return try await work(call)
    }
    return (try await bench.run([plugin], tool: tool), calls.seen)
  }

  private static func next(_ input: JSONObject = [:]) -> JSON {
    ["op": "next", "input": .object(input)]
  }

  // MARK: next

  @Test func `a wrap is told of the call and of the tool`() async throws {
    let bench = ScriptedBench()
    _ = try await run(["answer": [:]], bench: bench)
    let input = try bench.input("wrap:tool:work")
    #expect(input.object?.keys == ["ctx", "callId", "arguments", "replay", "tool"])
    #expect(input["tool"]?["name"] == "work")
    #expect(input["tool"]?["extension"] == "app")
    #expect(input["arguments"] == ["n": 1])
  }

  @Test func `a wrap that never asks for next takes the place of the tool`() async throws {
    let (run, calls) = try await run(["text": "from the cache"])
    #expect(run.text == "from the cache")
    #expect(calls == [])
  }

  @Test func `a wrap hands the result of the tool on`() async throws {
    let (run, calls) = try await run(["ops": [Self.next()], "last": true])
    #expect(run.text == #"did {"n":1}"#)
    #expect(calls == [#"{"n":1}"#])
  }

  @Test func `a wrap calls the tool with other arguments, more than once`() async throws {
    let bench = ScriptedBench()
    let (run, calls) = try await run(
      [
        "ops": [Self.next(["arguments": ["n": 5]]), Self.next(["arguments": ["n": 6]])],
        "last": true,
      ],
      bench: bench
    )
    #expect(run.text == #"did {"n":6}"#)
    #expect(calls == [#"{"n":5}"#, #"{"n":6}"#])
    #expect(bench.results == ["result 0", "result 0"])
  }

  @Test func `an error of the tool can be handled`() async throws {
    let bench = ScriptedBench()
    let (run, _) = try await run(
      [
        "ops": [Self.next(), Self.next(["arguments": ["n": 2]])],
        "answer": [
          "output": [["type": "text", "text": "used 2"]],
          "diagnostics": [["severity": "info", "message": "the first one failed"]],
        ],
      ],
      bench: bench
    ) { call in
      guard call.arguments["n"] == 2 else { throw PerdureError("boom", "n must be 2") }
      return .text("fine")
    }
    #expect(bench.results == ["result -11", "result 0"])
    #expect(bench.logs.first { $0.name == "result -11" }?.json["reason"] == "tool_error")
    #expect(run.text.contains("used 2"))
    #expect(run.text.contains("the first one failed"))
  }

  @Test func `a wrap takes the output of the tool as a stream`() async throws {
    let bench = ScriptedBench()
    let (run, _) = try await run(
      [
        "ops": [
          Self.next(["capture": true]), ["op": "stream.next", "input": ["stream": "s1"]],
          ["op": "stream.next", "input": ["stream": "s1"]],
          ["op": "stream.next", "input": ["stream": "s1"]],
        ],
        "text": "its own",
      ],
      bench: bench
    ) { call in
      try call.host.output("one ", skipped: nil)
      try call.host.output("two", skipped: nil)
      return ToolResult()
    }
    #expect(run.text == "its own")
    let batches = bench.logs.filter { $0.name == "result 0" }.map(\.json)
    let items = batches.compactMap { $0["items"]?.array }.joined()
    #expect(items.compactMap { $0["text"]?.text }.joined() == "one two")
    let end = batches.compactMap { $0["end"] }.last
    #expect(end?["output"]?.array?.first?["text"] == "one two")
  }

  @Test func `a stream ends with the error of the tool`() async throws {
    let bench = ScriptedBench()
    _ = try await run(
      [
        "ops": [
          Self.next(["capture": true]), ["op": "stream.next", "input": ["stream": "s1"]],
        ],
        "text": "its own",
      ],
      bench: bench
    ) { _ in throw PerdureError("boom", "it broke") }
    let end = bench.logs.compactMap { $0.json["end"] }.last
    #expect(end?["error"]?["code"] == -11)
    #expect(end?["error"]?["detail"]?["reason"] == "tool_error")
  }

  @Test func `a wrap tries once more after it has seen the tool fail`() async throws {
    let bench = ScriptedBench()
    let (run, calls) = try await run(
      [
        "ops": [
          Self.next(["capture": true]), ["op": "stream.next", "input": ["stream": "s1"]],
          Self.next(["arguments": ["n": 2]]),
        ],
        "answer": [
          "output": [["type": "text", "text": "from 2"]],
          "diagnostics": [["severity": "info", "message": "used 2"]],
        ],
      ],
      bench: bench
    ) { call in
      guard call.arguments["n"] == 2 else { throw PerdureError("boom", "n must be 2") }
      return .text("from 2")
    }
    #expect(calls == [#"{"n":1}"#, #"{"n":2}"#])
    #expect(bench.results == ["result 0", "result 0", "result 0"])
    #expect(run.text.contains("from 2"))
    #expect(run.text.contains("used 2"))
  }

  // MARK: Abuse

  @Test func `a second next at the same time is refused`() async throws {
    let bench = ScriptedBench()
    let (_, calls) = try await run(
      ["ops": [Self.next(), Self.next()], "parallel": true, "text": "done"],
      bench: bench
    ) { call in
      try await call.host.sleep(milliseconds: 20)
      return .text("fine")
    }
    #expect(calls.count == 1)
    #expect(Set(bench.results) == ["result 0", "result -5"])
    #expect(bench.logs.first { $0.name == "result -5" }?.json["reason"] == "next_running")
  }

  @Test func `the seventeenth next is refused`() async throws {
    let bench = ScriptedBench()
    let asked = Array(repeating: Self.next(), count: 18)
    let (_, calls) = try await run(["ops": .array(asked), "text": "done"], bench: bench)
    #expect(calls.count == 16)
    #expect(bench.results.suffix(2) == ["result -5", "result -5"])
    #expect(bench.logs.last?.json["reason"] == "limit")
    #expect(bench.reports.strikes.count == 2)
  }

  @Test func `next checks arguments against the schema`() async throws {
    let bench = ScriptedBench()
    let (_, calls) = try await run(
      ["ops": [Self.next(["arguments": ["n": "many"]])], "text": "done"],
      bench: bench
    )
    #expect(calls == [])
    #expect(bench.results == ["result -7"])
    #expect(bench.logs.last?.json["reason"] == "invalid_arguments")
  }

  @Test func `next after the completion is stale`() async throws {
    let bench = ScriptedBench()
    let (_, calls) = try await run(["text": "done", "after": true], bench: bench)
    #expect(calls == [])
    while bench.results.isEmpty { await Task.yield() }
    #expect(bench.results == ["after -3"])
  }

  @Test func `what runs inside is cancelled and waited for before the result settles`() async throws
  {
    let calls = Calls()
    let (run, _) = try await run(["ops": [Self.next()], "leave": true, "text": "left"]) { call in
      // Ends with its cancellation.
      while !Task.isCancelled { await Task.yield() }
      calls.add("\(call.host.cancelReason.map { "\($0)" } ?? "none")")
      return .text("late")
    }
    #expect(run.text == "left")
    #expect(calls.seen == ["parent"])
  }

  @Test func `next is refused to a hook`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      ["hooks": [["point": "beforeTool", "role": "guard"]]],
      script: ["hook:beforeTool": ["ops": [Self.next()]]]
    )
    _ = try await bench.run([plugin])
    #expect(bench.results == ["result -7"])
    #expect(bench.logs.last?.json["reason"] == "not_here")
  }

  // MARK: The declaration

  @Test func `an override makes the declaration stricter`() async throws {
    let bench = ScriptedBench(arguments: ["n": 1, "why": "test"])
    let override: JSON = [
      "description": "Works, with a reason.",
      "parameters": ["type": "object", "required": ["why"]],
      "outputLimits": ["maxBytes": 4], "executionMode": "sequential", "replay": "unsafe",
    ]
    let (run, _) = try await run(
      ["ops": [Self.next()], "last": true],
      bench: bench,
      wraps: ["wraps": [["tool": "work", "override": override]]]
    ) { _ in .text("123456789") }
    let system = bench.model.seen.first?.messages.first { $0["role"] == "system" }
    let tool = try #require(system?["toolsAdded"]?.array?.first)
    #expect(tool["description"] == "Works, with a reason.")
    #expect(tool["parameters"]?["required"] == ["why"])
    #expect(run.codes == ["truncated"])
  }

  @Test(arguments: [
    #"{"executionMode": "parallel"}"#, #"{"replay": "safe"}"#,
  ])
  func `an override that is not stricter is refused`(_ text: String) async throws {
    let override = try JSON(parsing: text)
    let error = await #expect(throws: PerdureError.self) {
      _ = try await ScriptedBench().plugin(["wraps": [["tool": "work", "override": override]]])
    }
    #expect(error?.message.contains("an override that is not stricter") == true)
  }

  @Test func `a plugin with one slot may wrap its own tool`() async throws {
    let bench = ScriptedBench(answer: { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls(("c1", "own", [:])) : ScriptedModel.text("done")
    })
    let plugin = try await bench.plugin(
      [
        "execution": ["maxConcurrency": 1], "wraps": [["tool": "own"]],
        "tools": [["name": "own", "description": "Own.", "parameters": ["type": "object"]]],
      ],
      script: [
        "wrap:tool:own": ["ops": [Self.next()], "last": true], "tool:own": ["text": "inside"],
      ]
    )
    #expect(try await bench.run([plugin]).text == "inside")
  }

  // MARK: Sections

  /// Runs "go" and returns the sections that the model is shown.
  private func sections(
    _ members: JSONObject,
    _ script: JSONObject,
    bench: ScriptedBench = ScriptedBench(answer: { _ in ScriptedModel.text("hello") }),
    others: [PromptSection] = []
  ) async throws -> JSONObject {
    let plugin = try await bench.plugin(members, script: script)
    _ = try await bench.run([plugin], extensions: [Extension(name: "more", sections: others)])
    let system = bench.model.seen.first?.messages.first { $0["role"] == "system" }
    return system?["sections"]?.object ?? [:]
  }

  private static let note = PromptSection("note", isTagged: false, text: "inner")

  @Test(
    arguments: [
      (["answer": ["text": "be kind"]], "<policy>\nbe kind\n</policy>"),
      (["text": "be kind"], "<policy>\nbe kind\n</policy>"), (["answer": [:]], nil),
      (["fail": "it broke"], nil), (["hang": true], nil), (["answer": ["text": 1]], nil),
    ] as [(JSON, String?)]
  )
  func `a section is what the plugin says, or is left out`(
    _ step: JSON,
    _ text: String?
  ) async throws {
    let members: JSONObject = ["sections": [["key": "policy", "deadlineMs": 50, "graceMs": 100]]]
    let sections = try await sections(members, ["section:policy": step])
    #expect(sections["policy"]?.text == text)
  }

  @Test func `a section is told the agent and what was shown`() async throws {
    let bench = ScriptedBench(answer: { _ in ScriptedModel.text("hello") })
    _ = try await sections(["sections": [["key": "policy"]]], [:], bench: bench)
    let input = try bench.input("section:policy")
    #expect(input["agent"]?["tools"] == ["work"])
    #expect(input["shown"] == [:])
  }

  @Test func `a constant section costs no call`() async throws {
    let bench = ScriptedBench(answer: { _ in ScriptedModel.text("hello") })
    let members: JSONObject = ["sections": [["key": "policy", "tag": false, "text": "always"]]]
    #expect(try await sections(members, [:], bench: bench)["policy"] == "always")
    #expect(bench.targets == [])
  }

  @Test(
    arguments: [
      ("observer", ["ops": [["op": "next"]], "answer": ["text": "outer"]], "outer"),
      ("observer", ["ops": [["op": "next"]], "last": true], "inner"),
      ("observer", ["fail": "it broke"], "inner"), ("observer", ["hang": true], "inner"),
      ("guard", ["fail": "it broke"], nil), ("guard", ["answer": [:]], nil),
    ] as [(String, JSON, String?)]
  )
  func `a section is what its wrap makes of it`(
    _ role: String,
    _ step: JSON,
    _ text: String?
  ) async throws {
    let wrap: JSON = [
      "section": "note", "role": .string(role), "deadlineMs": 50, "graceMs": 100,
    ]
    let sections = try await sections(
      ["wraps": [wrap]],
      ["wrap:section:note": step],
      others: [Self.note]
    )
    #expect(sections["note"]?.text == text)
  }
}
