import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// In what order hooks and wraps of several plugins count.
@Suite(.timeLimit(.minutes(5))) struct HookRankTests {
  /// Loads plugins with one hook at `beforeTool` each and returns the order in which they are called.
  private func order(_ hooks: [(id: String, hook: JSONObject)]) async throws -> [String] {
    let bench = ScriptedBench()
    var plugins: [ScriptedPlugin] = []
    for (id, hook) in hooks {
      var whole: JSONObject = ["point": "beforeTool"]
      for (key, value) in hook { whole[key] = value }
      plugins.append(try await bench.plugin(["hooks": [.object(whole)]], id: id))
    }
    _ = try await bench.run(plugins)
    return bench.called
  }

  static let ranks: [(name: String, role: String, changes: Bool)] = [
    ("d", "observer", false), ("c", "guard", false), ("b", "guard", true), ("a", "observer", true),
  ]

  /// All ways to install the four ranks.
  static let installations: [[Int]] = permutations([0, 1, 2, 3])

  static func permutations(_ values: [Int]) -> [[Int]] {
    if values.count < 2 { return [values] }
    return values.flatMap { first in
      permutations(values.filter { $0 != first }).map { [first] + $0 }
    }
  }

  @Test(arguments: installations)
  func `the rank counts before the order of installation`(_ installation: [Int]) async throws {
    let hooks = installation.map { index in
      let (name, role, changes) = Self.ranks[index]
      return (
        id: "test.\(name)",
        hook: ["role": .string(role), "changes": .bool(changes)] as JSONObject
      )
    }
    #expect(try await order(hooks) == ["test.a", "test.b", "test.c", "test.d"])
  }

  @Test func `within a rank the order of the extensions counts`() async throws {
    let hooks = ["test.z", "test.a", "test.m"].map {
      (id: $0, hook: ["role": "guard"] as JSONObject)
    }
    #expect(try await order(hooks) == ["test.z", "test.a", "test.m"])
  }

  @Test(
    arguments: [
      (["before": ["test.a"]], ["test.b", "test.c", "test.a"]),
      (["before": ["test.b"]], ["test.a", "test.c", "test.b"]),
      (["after": ["test.a"]], ["test.a", "test.b", "test.c"]),
      (["before": ["test.unknown"]], ["test.a", "test.b", "test.c"]),
    ] as [(JSONObject, [String])]
  )
  func `an order moves a hook within its rank`(
    _ wish: JSONObject,
    _ expected: [String]
  ) async throws {
    let hooks: [(id: String, hook: JSONObject)] = [
      ("test.a", ["role": "guard"]), ("test.b", ["role": "guard"]),
      ("test.c", ["role": "guard", "order": .object(wish)]),
    ]
    #expect(try await order(hooks) == expected)
  }

  @Test func `an order does not lead over the border of a rank`() async throws {
    let hooks: [(id: String, hook: JSONObject)] = [
      ("test.a", ["role": "guard"]),
      ("test.b", ["role": "observer", "order": ["before": ["test.a"]]]),
    ]
    #expect(try await order(hooks) == ["test.a", "test.b"])
  }

  @Test(
    arguments: [
      (
        "hooks", ["point": "beforeTool", "role": "guard"], ["point": "beforeTool", "role": "guard"]
      ),
      ("wraps", ["tool": "work"], ["tool": "work"]),
    ] as [(JSONString, JSONObject, JSONObject)]
  )
  func `orders that lead in a circle refuse the install`(
    _ list: JSONString,
    _ one: JSONObject,
    _ other: JSONObject
  ) async throws {
    let bench = ScriptedBench()
    var (one, other) = (one, other)
    one["order"] = ["before": ["test.b"]]
    other["order"] = ["before": ["test.a"]]
    let first = try await bench.plugin([list: [.object(one)]], id: "test.a")
    let second = try await bench.plugin([list: [.object(other)]], id: "test.b")
    let error = await #expect(throws: PerdureError.self) {
      _ = try await bench.open([first, second])
    }
    #expect(error?.message.contains("lead in a circle: test.a, test.b") == true)
    try await first.close()
    try await second.close()
  }

  @Test func `an order moves a wrap further inside`() async throws {
    let bench = ScriptedBench()
    let next: JSONObject = ["wrap:tool:work": ["ops": [["op": "next"]], "last": true]]
    let outer = try await bench.plugin(["wraps": [["tool": "work"]]], id: "test.a", script: next)
    let inner = try await bench.plugin(
      ["wraps": [["tool": "work", "order": ["before": ["test.a"]]]]],
      id: "test.b",
      script: next
    )
    _ = try await bench.run([outer, inner])
    // The outermost is called first.
    #expect(bench.called == ["test.a", "test.b"])
  }

  // MARK: Tools of one name

  private static let tool: JSONObject = [
    "name": "work", "description": "Works too.", "parameters": ["type": "object"],
  ]

  @Test func `two plugins with one tool are refused`() async throws {
    let bench = ScriptedBench()
    let first = try await bench.plugin(["tools": [.object(Self.tool)]], id: "test.a")
    let error = await #expect(throws: PerdureError.self) { _ = try await bench.open([first]) }
    #expect(error?.message == "the tool 'work' of test.a is also one of app")
    #expect(error?.hint?.contains("rename one of them") == true)
    try await first.close()
  }

  @Test func `a tool that overrides takes the place of another one`() async throws {
    let bench = ScriptedBench()
    var tool = Self.tool
    tool["overrides"] = true
    let plugin = try await bench.plugin(
      ["tools": [.object(tool)]],
      id: "test.a",
      script: ["tool:work": ["text": "by the plugin"]]
    )
    #expect(try await bench.run([plugin]).text == "by the plugin")
  }
}

extension ScriptedBench {
  /// The plugins that were called, in order.
  var called: [String] { reports.plugins }
}
