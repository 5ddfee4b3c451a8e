import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite struct AgentTests {
  private static func tool(_ name: String, by owner: String) -> Tool {
    Tool(name: name, description: owner, parameters: ["type": "object"]) { _ in .text("") }
  }

  /// Three extensions; the second brings a tool that replaces one of the first.
  private func resolve(_ stored: JSON) throws -> Agent {
    let registry = Registry()
    try registry.install(
      Extension(name: "A", tools: [Self.tool("read", by: "A"), Self.tool("write", by: "A")])
    )
    try registry.install(
      Extension(name: "B", tools: [Self.tool("read", by: "B"), Self.tool("bash", by: "B")])
    )
    try registry.install(Extension(name: "C", tools: [Self.tool("find", by: "C")]))
    return Agent(stored, registry: registry.snapshot)
  }

  static let choices: [(stored: JSON, tools: [String])] = [
    ([:], ["read", "write", "bash", "find"]),
    (["extensions": ["C", "A"]], ["find", "read", "write"]),
    (["extensions": ["C", "ghost", "C"]], ["find"]),
    (["extensions": ["remove": ["B"]]], ["read", "write", "find"]),
    (["extensions": ["add": ["A"], "remove": ["C"]]], ["read", "write", "bash"]),
    (["extensions": []], []),
    (["tools": ["find", "read", "find", "ghost"]], ["find", "read"]),
    (["tools": ["remove": ["bash"]]], ["read", "write", "find"]),
    (["modelTools": ["write"]], ["write"]),
    (["modelTools": ["remove": ["read", "write"]]], ["bash", "find"]),
    (["tools": ["find", "read"], "modelTools": ["remove": ["find"]]], ["read"]),
    (["tools": ["read"], "modelTools": ["write", "read"]], ["read"]),
    (["tools": 7, "extensions": "A", "modelTools": .null], ["read", "write", "bash", "find"]),
    (["tools": [1, .null, "find"]], ["find"]),
    (.null, ["read", "write", "bash", "find"]),
  ]

  @Test(arguments: 0..<choices.count)
  func `choices select tools in order`(_ index: Int) throws {
    let (stored, tools) = Self.choices[index]
    #expect(try resolve(stored).tools.map(\.tool.name) == tools, "\(stored.compactText)")
  }

  @Test func `a later extension replaces a tool in its place`() throws {
    let reversed = try resolve(["extensions": ["B", "A"]])
    #expect(try resolve([:]).tool("read")?.extensionName == "B")
    #expect(reversed.tool("read")?.extensionName == "A")
  }

  static let models: [(stored: JSON, model: String?, level: String)] = [
    ([:], nil, "off"), (["model": ["provider": "p", "modelId": "m"]], "m", "off"),
    (["model": ["provider": "p"]], nil, "off"), (["model": "m"], nil, "off"),
    (["thinkingLevel": "low"], nil, "low"), (["thinkingLevel": 3], nil, "off"),
  ]

  @Test(arguments: 0..<models.count)
  func `model and level are those that are stored`(_ index: Int) throws {
    let (stored, model, level) = Self.models[index]
    let agent = try resolve(stored)
    #expect(agent.model?.modelId == model)
    #expect(agent.thinkingLevel == level)
  }

  @Test func `a conversation offers what it selected`() async throws {
    let bench = TestBench()
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let engine = try await bench.open(
      model,
      tools: [Self.tool("one", by: "test"), Self.tool("two", by: "test")]
    )
    _ = try await bench.start(engine)
    try await engine.configure(.root, ["tools": ["two"]])
    _ = try await bench.ask(engine)
    try await engine.configure(.root, ["tools": .null])
    _ = try await bench.ask(engine)
    let offers = model.seen.map { PromptState(replaying: $0.messages).toolNames.map(\.string) }
    #expect(offers == [["two"], ["one", "two"]])
    try await bench.end(engine)
  }

  // MARK: Registry

  static let refused: [(Extension, String)] = [
    (Extension(name: ""), "no name"),
    (Extension(name: "x", tools: [tool("", by: "x")]), "not allowed"),
    (Extension(name: "x", tools: [tool("1a", by: "x")]), "not allowed"),
    (Extension(name: "x", tools: [tool("a b", by: "x")]), "not allowed"),
    (Extension(name: "x", tools: [tool("é", by: "x")]), "not allowed"),
    (
      Extension(name: "x", tools: [tool(String(repeating: "a", count: 65), by: "x")]),
      "not allowed"
    ),
    (Extension(name: "x", tools: [tool("a", by: "x"), tool("a", by: "y")]), "two tools"),
    (
      Extension(
        name: "x",
        tools: [
          Tool(name: "a", description: "", parameters: ["type": "nonsense"]) { _ in .text("") }
        ]
      ),
      "parameters"
    ),
  ]

  @Test(arguments: 0..<refused.count)
  func `an extension that breaks a rule is refused and nothing changes`(_ index: Int) throws {
    let (value, words) = Self.refused[index]
    let registry = Registry()
    try registry.install(Extension(name: "x", version: "1", tools: [echo]))
    let error = #expect(throws: PerdureError.self) { try registry.install(value) }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    #expect(registry.snapshot.map(\.version) == ["1"])
  }

  @Test func `a reinstalled extension keeps its place`() throws {
    let registry = Registry()
    for name in ["a", "b", "c"] { try registry.install(Extension(name: name, version: "1")) }
    try registry.install(Extension(name: "b", version: "2"))
    #expect(registry.snapshot.map { $0.name + $0.version } == ["a1", "b2", "c1"])
  }

  @Test func `an uninstalled extension comes back at the end`() throws {
    let registry = Registry()
    for name in ["a", "b"] { try registry.install(Extension(name: name)) }
    registry.uninstall("a")
    registry.uninstall("ghost")
    try registry.install(Extension(name: "a"))
    #expect(registry.snapshot.map(\.name) == ["b", "a"])
  }

  @Test func `a snapshot does not change`() throws {
    let registry = Registry()
    try registry.install(Extension(name: "a"))
    let snapshot = registry.snapshot
    registry.uninstall("a")
    #expect(snapshot.map(\.name) == ["a"])
  }

  @Test func `names that only look alike are two`() throws {
    let registry = Registry()
    try registry.install(Extension(name: "caf\u{E9}"))
    try registry.install(Extension(name: "cafe\u{301}"))
    #expect(registry.snapshot.count == 2)
  }
}
