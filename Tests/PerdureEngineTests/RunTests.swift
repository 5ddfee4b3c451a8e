import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Opens an engine in memory for tests.
struct TestBench {
  var storage: any Storage = MemoryStorage()
  var clock = ManualClock()
  var settings = Settings()

  func open(_ model: ScriptedModel, tools: [Tool] = []) async throws -> Engine {
    let registry = Registry()
    try registry.install(Extension(name: "test", tools: tools))
    let settings = settings
    return try await Engine.open(
      storage,
      Engine.Options(
        models: model, registry: registry, settings: { settings }, clock: clock, report: { _ in }))
  }

  func start(_ engine: Engine) async throws -> ConversationID {
    let root = try await engine.root()
    try await engine.configure(root, ["model": ScriptedModel.reference.json])
    return root
  }

  static func entries(_ engine: Engine) async throws -> [EntryRecord] {
    try await engine.session.store.scanEntries(
      EntryQuery(conversationId: .root), PageRequest(limit: 256, order: .ascending)
    ).items
  }
}

let echo = Tool(
  name: "echo", description: "Says it again.",
  parameters: [
    "type": "object", "properties": ["text": ["type": "string"]], "required": ["text"],
  ]
) { call in .text(call.arguments["text"]?.text ?? "") }

@Suite struct RunTests {
  @Test func `an answer settles its submission`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    let root = try await bench.start(engine)
    let id = try await engine.submit("hi", to: root)
    let record = try await engine.wait(for: id)
    #expect(record.status == .done)
    #expect(try await TestBench.entries(engine).map(\.kind) == ["pi.user", "pi.assistant"])
    try await engine.close()
  }

  @Test func `a tool round ends with one result per call and an answer`() async throws {
    let bench = TestBench()
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      return ScriptedModel.calls(
        ("a", "echo", ["text": "one"]), ("b", "echo", ["text": "two"]))
    }
    let engine = try await bench.open(model, tools: [echo])
    let root = try await bench.start(engine)
    let record = try await engine.wait(for: try await engine.submit("hi", to: root))
    #expect(record.status == .done)
    let kinds = try await TestBench.entries(engine).map(\.kind.string)
    #expect(
      kinds == [
        "pi.user", "pi.system", "pi.assistant", "pi.tool-result", "pi.tool-result", "pi.assistant",
      ])
    let roles = model.seen.last?.messages.compactMap { $0["role"]?.text }
    #expect(roles == ["system", "user", "assistant", "toolResult", "toolResult"])
    try await engine.close()
  }
}
