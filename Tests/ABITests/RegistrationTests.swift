import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What plugins register while they run.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct RegistrationTests {
  private static let members: JSONObject = [
    "health": [["name": "h", "title": "H"]],
    "dynamic": ["tools": "extra_*", "sections": "extra-*"],
    "tools": [
      [
        "name": "lookup", "description": "l", "parameters": ["type": "object"],
        "callers": ["model"], "deadlineMs": 1_000,
      ]
    ],
    "hooks": [["point": "beforeTool", "role": "guard", "tools": ["nothing"]]],
  ]

  private static func tool(_ name: JSON, _ more: JSONObject = [:]) -> JSON {
    var tool: JSONObject = [
      "name": name, "description": "new", "parameters": ["type": "object"],
    ]
    for (key, value) in more { tool[key] = value }
    return .object(tool)
  }

  /// A plugin whose health check registers something.
  private func plugin(
    _ bench: ScriptedBench,
    _ operations: JSON...,
    script: JSONObject = [:]
  ) async throws -> ScriptedPlugin {
    var script = script
    script["health"] = ["ops": .array(operations), "answer": ["status": "ok"]]
    return try await bench.plugin(Self.members, script: script)
  }

  private static func register(_ input: JSON) -> JSON { ["op": "register", "input": input] }

  @Test func `what is registered is offered to the model from then on`() async throws {
    let bench = ScriptedBench(answer: { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("all done") }
      return ScriptedModel.calls(("c1", "extra_search", [:]))
    })
    let plugin = try await plugin(
      bench,
      Self.register([
        "tools": [Self.tool("extra_search")],
        "sections": [["key": "extra-hint", "text": "search first"]],
      ]),
      script: ["tool:extra_search": ["text": "found it"]]
    )
    let (harness, root) = try await bench.open([plugin])
    plugin.loaded.follow { try? harness.install($0) }
    #expect(try await bench.run(harness, root).text.contains("was not offered"))
    #expect(await plugin.loaded.health("h").status == .ok)
    let run = try await bench.run(harness, root)
    #expect(run.text == "found it")
    let prompt = PromptState(replaying: try #require(bench.model.seen.last).messages)
    #expect(prompt.sections["extra-hint"]?.text?.contains("search first") == true)
    try await harness.close()
    try await plugin.close()
  }

  @Test func `what is taken back is gone`() async throws {
    let bench = ScriptedBench()
    let plugin = try await plugin(
      bench,
      Self.register(["tools": [Self.tool("extra_search")]]),
      ["op": "unregister", "input": ["tools": ["extra_search", "lookup"]]]
    )
    _ = await plugin.loaded.health("h")
    // What the manifest declares stays.
    #expect(plugin.contribution.tools.map(\.name) == ["lookup"])
    try await plugin.close()
  }

  /// Registrations that go too far (abuse 7).
  private static let refused: [JSON] = [
    ["tools": [tool("undeclared")]], ["tools": [tool("extra_x", ["replay": "safe"])]],
    ["tools": [tool("lookup", ["replay": "safe"])]],
    ["tools": [tool("lookup", ["overrides": true])]],
    ["tools": [tool("lookup", ["callers": ["model", "tools"]])]],
    ["tools": [tool("lookup", ["callers": ["model"], "deadlineMs": 2_000])]],
    ["tools": [tool("lookup", ["callers": ["model"], "prepare": true])]],
    ["tools": [tool("extra_x", ["overrides": true])]], ["sections": [["key": "undeclared"]]],
    ["hooks": [["point": "beforeTool", "role": "observer"]]],
    ["hooks": [["point": "beforeTool", "role": "guard"]]],
  ]

  @Test(arguments: refused)
  func `what was not declared is denied and what is published stays`(_ input: JSON) async throws {
    let bench = ScriptedBench()
    let plugin = try await plugin(bench, Self.register(input))
    _ = await plugin.loaded.health("h")
    #expect(bench.results == ["result -9"], "\(bench.logs)")
    #expect(bench.logs.last?.json["reason"] == "permission")
    #expect(plugin.contribution.tools.map(\.name) == ["lookup"])
    #expect(plugin.contribution.tools.first?.description == "l")
    #expect(bench.reports.strikes.count == 1)
    try await plugin.close()
  }

  @Test func `a guard is not taken back`() async throws {
    let bench = ScriptedBench()
    let plugin = try await plugin(bench, ["op": "unregister", "input": ["hooks": ["beforeTool"]]])
    _ = await plugin.loaded.health("h")
    #expect(plugin.contribution.hooks.count == 1)
    try await plugin.close()
  }

  @Test func `a declared tool may become stricter`() async throws {
    let bench = ScriptedBench()
    let plugin = try await plugin(
      bench,
      Self.register([
        "tools": [
          Self.tool("lookup", ["callers": ["model"], "deadlineMs": 500, "deferred": true])
        ]
      ])
    )
    _ = await plugin.loaded.health("h")
    let tool = try #require(plugin.contribution.tools.first)
    #expect(tool.description == "new")
    #expect(tool.deadline == .milliseconds(500))
    #expect(tool.isDeferred)
    try await plugin.close()
  }
}
