import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// A guard, tools of every kind and what others do to them.
@Suite struct ResolutionTests {
  private static func tool(
    _ name: String,
    by owner: String,
    callers: Set<ToolCaller> = [.model, .tools],
    isDeferred: Bool = false
  ) -> Tool {
    Tool(
      name: name,
      description: owner,
      parameters: ["type": "object"],
      callers: callers,
      isDeferred: isDeferred
    ) { _ in .text("") }
  }

  private static func section(_ key: String, _ text: String) -> PromptSection {
    PromptSection(key, text: text)
  }

  private func registry(pinned: [String] = []) throws -> Registry {
    let registry = Registry(pinned: pinned)
    try registry.install(
      Extension(
        name: "A",
        tools: [
          Self.tool("read", by: "A"), Self.tool("late", by: "A", isDeferred: true),
          Self.tool("inner", by: "A", callers: [.tools]),
        ],
        sections: [Self.section("p", "A"), Self.section("q", "A")]
      )
    )
    try registry.install(
      Extension(
        name: "B",
        tools: [
          Self.tool("read", by: "B"), Self.tool("later", by: "B", isDeferred: true),
          Self.tool("outer", by: "B", callers: [.model]),
        ],
        sections: [Self.section("r", "B"), Self.section("p", "B")],
        hooks: [.beforeTool { _, _ in .proceed }]
      )
    )
    return registry
  }

  static let choices: [(stored: JSON, tools: [String], deferred: [String], callable: [String])] = [
    ([:], ["read", "outer"], ["late", "later"], ["read", "late", "inner", "later"]),
    (
      ["modelTools": ["add": ["late", "read", "ghost", "inner"]]], ["read", "outer", "late"],
      ["later"], ["read", "late", "inner", "later"]
    ),
    (
      ["modelTools": ["add": ["later", "late"], "remove": ["late", "read"]]],
      ["outer", "later"], ["late"], ["read", "late", "inner", "later"]
    ),
    (
      ["modelTools": ["late", "inner", "late", "outer"]], ["late", "outer"], ["later"],
      ["read", "late", "inner", "later"]
    ),
    (["tools": ["inner", "late"]], [], ["late"], ["inner", "late"]),
    (["tools": ["remove": ["late", "inner"]]], ["read", "outer"], ["later"], ["read", "later"]),
    (["extensions": ["A"], "modelTools": []], [], ["late"], ["read", "late", "inner"]),
    (["extensions": []], [], [], []),
  ]

  @Test(arguments: 0..<choices.count)
  func `callers and loading say who may call what`(_ index: Int) throws {
    let (stored, tools, deferred, callable) = Self.choices[index]
    let agent = Agent(stored, registry: try registry().snapshot)
    #expect(agent.tools.map(\.tool.name) == tools)
    #expect(agent.deferred.map(\.tool.name) == deferred)
    #expect(agent.callable.map(\.tool.name) == callable)
  }

  @Test func `a later section replaces an earlier one in its place`() throws {
    let agent = Agent([:], registry: try registry().snapshot)
    #expect(agent.sections.map(\.section.key) == ["p", "q", "r"])
    #expect(agent.sections.map(\.extensionName) == ["B", "A", "B"])
  }

  static let defaults: [(stored: JSON, defaults: [String]?, extensions: [String])] = [
    ([:], nil, ["A", "B"]), ([:], ["B"], ["B"]), ([:], [], []),
    ([:], ["B", "A", "B"], ["B", "A"]),
    (["extensions": ["A"]], ["B"], ["A"]), (["extensions": ["add": ["A"]]], ["B"], ["B", "A"]),
    (["extensions": ["remove": ["B"]]], ["B"], []), ([:], ["ghost", "A"], ["A"]),
  ]

  @Test(arguments: 0..<defaults.count)
  func `the settings say what a conversation has that has chosen nothing`(_ index: Int) throws {
    let (stored, defaults, extensions) = Self.defaults[index]
    let agent = Agent(stored, registry: try registry().snapshot, defaults: defaults)
    #expect(agent.extensions == extensions)
  }

  // MARK: Pinned extensions

  static let deselections: [(stored: JSON, extensions: [String])] = [
    ([:], ["B", "A"]), (["extensions": []], ["B"]), (["extensions": ["A"]], ["B", "A"]),
    (["extensions": ["remove": ["B"]]], ["B", "A"]), (["extensions": ["A", "B"]], ["B", "A"]),
  ]

  @Test(arguments: 0..<deselections.count)
  func `a pinned extension is first and cannot be deselected`(_ index: Int) throws {
    let (stored, extensions) = Self.deselections[index]
    let agent = Agent(stored, registry: try registry(pinned: ["B"]).snapshot)
    #expect(agent.extensions == extensions)
    #expect(agent.hooks.map(\.extensionName) == ["B"])
  }

  @Test func `nobody takes the place of a pinned tool or section`() throws {
    let agent = Agent([:], registry: try registry(pinned: ["A"]).snapshot)
    #expect(agent.tool("read")?.extensionName == "A")
    #expect(agent.sections.map(\.extensionName) == ["A", "A", "B"])
  }

  @Test func `a pinned extension stays installed and can be replaced by its own kind`() throws {
    let registry = try registry(pinned: ["A"])
    #expect(!registry.uninstall("A"))
    #expect(registry.uninstall("B"))
    #expect(registry.uninstall("B"))
    try registry.install(Extension(name: "A", version: "2"))
    #expect(registry.snapshot.map { $0.name + $0.version } == ["A2"])
    #expect(Agent(["extensions": []], registry: registry.snapshot).extensions == ["A"])
  }

  @Test func `a store is not opened without its pinned extensions`() async throws {
    let bench = TestBench()
    let error = await #expect(throws: PerdureError.self) {
      try await Engine.open(
        bench.memory,
        Engine.Options(
          models: ScriptedModel { _ in [] },
          registry: Registry(pinned: ["guard"]),
          settings: { Settings() },
          clock: bench.clock,
          report: { _ in }
        )
      )
    }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.message.contains("'guard'") == true)
  }

  // MARK: Wraps

  private static func describing(_ tool: String, _ letter: String) -> Wrap {
    .tool(tool) { tool in
      var tool = tool
      tool.description += letter
      return tool
    }
  }

  @Test func `wraps are applied in order to whatever won`() throws {
    let registry = try registry()
    try registry.install(
      Extension(name: "C", wraps: [Self.describing("read", "1"), Self.describing("read", "2")])
    )
    try registry.install(Extension(name: "D", wraps: [Self.describing("read", "3")]))
    let agent = Agent([:], registry: registry.snapshot)
    #expect(agent.tool("read")?.tool.description == "B123")
    #expect(agent.tool("read")?.extensionName == "D")
    let other = Agent(["extensions": ["D", "A", "C"]], registry: registry.snapshot)
    #expect(other.tool("read")?.tool.description == "A312")
  }

  struct Broken: Error {}

  static let broken: [(name: String, wrap: Wrap)] = [
    ("throws", .tool("read") { _ in throw Broken() }),
    (
      "renames",
      .tool("read") { tool in
        var tool = tool
        tool.name = "write"
        return tool
      }
    ),
    (
      "breaks the schema",
      .tool("read") { tool in
        var tool = tool
        tool.parameters = ["type": "nonsense"]
        return tool
      }
    ),
    (
      "breaks the schema of results",
      .tool("read") { tool in
        var tool = tool
        tool.structuredOutputSchema = 5
        return tool
      }
    ),
  ]

  @Test(arguments: 0..<broken.count)
  func `a wrap that fails takes its tool away and is reported`(_ index: Int) throws {
    let registry = try registry()
    try registry.install(
      Extension(name: "C", wraps: [Self.broken[index].wrap, Self.describing("read", "!")])
    )
    let agent = Agent([:], registry: registry.snapshot)
    #expect(agent.tools.map(\.tool.name) == ["outer"])
    #expect(agent.problems.map(\.extensionName) == ["C"])
    #expect(agent.problems.allSatisfy { !$0.isLasting })
  }

  @Test func `a wrap that fails takes its section away`() throws {
    let registry = try registry()
    try registry.install(
      Extension(
        name: "C",
        wraps: [
          .section("p") { _ in throw Broken() },
          .section("q") { PromptSection($0.key + "x", text: "") },
          .section("ghost") { _ in throw Broken() },
        ]
      )
    )
    let agent = Agent([:], registry: registry.snapshot)
    #expect(agent.sections.map(\.section.key) == ["r"])
    #expect(agent.problems.count == 2)
  }

  @Test func `a wrap stands around the call of its tool`() async throws {
    let bench = TestBench()
    let wrap = Wrap.tool("echo") { tool in
      var wrapped = tool
      wrapped.execute = { call in
        var call = call
        call.arguments = ["text": "wrapped"]
        let result = try await tool.execute(call)
        return ToolResult(output: (result.output ?? []) + [["type": "text", "text": "!"]])
      }
      return wrapped
    }
    let engine = try await bench.open(
      calling((id: "1", name: "echo", arguments: ["text": "plain"])),
      tools: [echo],
      extensions: [Extension(name: "wrap", wraps: [wrap])]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(try await TestBench.results(engine).first?.contentText == "wrapped|!")
    try await bench.end(engine)
  }

  // MARK: Names

  static let slips: [(stored: JSON, words: [String])] = [
    (["extensions": ["A", "ghost"]], ["'extensions' names the extension 'ghost'"]),
    (["extensions": ["add": ["ghost"]]], ["'extensions' names the extension 'ghost'"]),
    (["tools": ["raed"]], ["'tools' names the tool 'raed'"]),
    (["modelTools": ["raed"]], ["'modelTools' names the tool 'raed'"]),
    (["modelTools": ["add": ["raed"]]], ["'modelTools' names the tool 'raed'"]),
    (["extensions": ["A"], "tools": ["outer"]], []), (["tools": ["remove": ["raed"]]], []),
    ([:], []),
  ]

  @Test(arguments: 0..<slips.count)
  func `a name that nothing installed has is a problem`(_ index: Int) throws {
    let (stored, words) = Self.slips[index]
    let problems = Agent(stored, registry: try registry().snapshot).problems
    #expect(problems.count == words.count)
    for (problem, words) in zip(problems, words) { #expect(problem.message.contains(words)) }
  }

  @Test func `an unknown name is reported once`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(
      calling((id: "1", name: "echo", arguments: HookTests.sayHi)),
      tools: [echo]
    )
    _ = try await bench.start(engine)
    try await engine.configure(.root, ["tools": ["echo", "ehco"]])
    _ = try await bench.ask(engine)
    _ = try await bench.ask(engine, "again")
    #expect(bench.reports.all.map(\.message).filter { $0.contains("'ehco'") }.count == 1)
    #expect(bench.reports.all.count == 1)
    try await bench.end(engine)
  }

  // MARK: Keys of sections

  static let keys: [(key: String, isAllowed: Bool)] = [
    ("p", true), ("a-b_c9", true), ("", false), ("P", false), ("9a", false), ("a b", false),
    ("é", false), ("instructions", false), ("a>b", false),
  ]

  @Test(arguments: 0..<keys.count)
  func `the key of a section is a tag`(_ index: Int) throws {
    let (key, isAllowed) = Self.keys[index]
    let value = Extension(name: "x", sections: [PromptSection(key, text: "")])
    if isAllowed {
      try Registry().install(value)
    } else {
      let error = #expect(throws: PerdureError.self) { try Registry().install(value) }
      #expect(error?.code == .invalidConfiguration)
    }
  }

  @Test func `two sections of an extension have two keys`() throws {
    let value = Extension(
      name: "x",
      sections: [PromptSection("a", text: "1"), PromptSection("a", text: "2")]
    )
    #expect(throws: PerdureError.self) { try Registry().install(value) }
  }

  @Test func `a schema of results that makes no sense is refused`() throws {
    var tool = Self.tool("a", by: "x")
    tool.structuredOutputSchema = ["type": "nonsense"]
    let error = #expect(throws: PerdureError.self) {
      try Registry().install(Extension(name: "x", tools: [tool]))
    }
    #expect(error?.message.contains("structured output of tool 'a'") == true)
  }
}
