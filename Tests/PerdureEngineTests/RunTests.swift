import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

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
        ("a", "echo", ["text": "one"]),
        ("b", "echo", ["text": "two"])
      )
    }
    let engine = try await bench.open(model, tools: [echo])
    let root = try await bench.start(engine)
    let record = try await engine.wait(for: try await engine.submit("hi", to: root))
    #expect(record.status == .done)
    let kinds = try await TestBench.entries(engine).map(\.kind.string)
    #expect(
      kinds == [
        "pi.user", "pi.system", "pi.assistant", "pi.tool-result", "pi.tool-result", "pi.assistant",
      ]
    )
    let roles = model.seen.last?.messages.compactMap { $0["role"]?.text }
    #expect(roles == ["system", "user", "assistant", "toolResult", "toolResult"])
    try await engine.close()
  }
}
