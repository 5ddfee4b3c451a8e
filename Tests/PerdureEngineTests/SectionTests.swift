import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// A text that a test changes between requests.
private final class Text: Sendable {
  private let state: Mutex<String?>

  init(_ text: String?) { state = Mutex(text) }

  var value: String? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}

@Suite struct SectionTests {
  private let model = ScriptedModel { _ in ScriptedModel.text("hello") }

  private func open(_ bench: TestBench, _ sections: [PromptSection]) async throws -> Engine {
    let engine = try await bench.open(
      model,
      extensions: [Extension(name: "ext", sections: sections)]
    )
    _ = try await bench.start(engine)
    return engine
  }

  /// The sections of the last request.
  private var shown: String {
    JSON.object(PromptState(replaying: model.seen.last?.messages ?? []).sections).compactText
  }

  @Test func `sections stand in tags unless they want none, instructions last`() async throws {
    let bench = TestBench()
    let engine = try await open(
      bench,
      [
        PromptSection("plain", isTagged: false, text: "as it is"), PromptSection("p", text: "P"),
        PromptSection("absent") { _ in nil },
      ]
    )
    try await engine.configure(.root, ["instructions": "Be brief."])
    _ = try await bench.ask(engine)
    let wanted: JSON = [
      "plain": "as it is", "p": "<p>\nP\n</p>",
      "instructions": "<instructions>\nBe brief.\n</instructions>",
    ]
    #expect(shown == wanted.compactText)
    try await bench.end(engine)
  }

  @Test func `only what changed is said again`() async throws {
    let bench = TestBench()
    let text = Text("one")
    let engine = try await open(
      bench,
      [PromptSection("same", text: "S"), PromptSection("p") { _ in text.value }]
    )
    _ = try await bench.ask(engine)
    _ = try await bench.ask(engine)
    text.value = "two"
    _ = try await bench.ask(engine)
    text.value = nil
    _ = try await bench.ask(engine)
    let said = try await TestBench.entries(engine).filter { $0.kind == "pi.system" }
      .map { $0.model?.first?["sections"]?.compactText }
    #expect(
      said == [
        #"{"same":"<same>\nS\n</same>","p":"<p>\none\n</p>"}"#, #"{"p":"<p>\ntwo\n</p>"}"#,
        #"{"p":null}"#,
      ]
    )
    try await bench.end(engine)
  }

  @Test func `a section sees the conversation and what was shown`() async throws {
    let bench = TestBench()
    let seen = Log<PromptInput>()
    let read = Log<JSON?>()
    let engine = try await open(
      bench,
      [
        PromptSection("p") { input in
          seen.add(input)
          read.add(try await input.read.document("pi.agent")?["cwd"])
          return "P"
        }
      ]
    )
    try await engine.configure(.root, ["cwd": "/tmp", "instructions": "short"])
    _ = try await bench.ask(engine)
    _ = try await bench.ask(engine)
    #expect(seen.all.map { $0.shown["p"] } == [nil, "<p>\nP\n</p>"])
    #expect(seen.all.last?.agent.cwd == "/tmp")
    #expect(seen.all.last?.agent.instructions == "short")
    #expect(seen.all.last?.agent.model == ScriptedModel.reference)
    #expect(read.all == ["/tmp", "/tmp"])
    try await bench.end(engine)
  }

  /// Ways in which a section goes wrong.
  enum Fault: CaseIterable { case throwing, hanging }

  @Test(arguments: Fault.allCases)
  func `a section that fails keeps what was shown of it`(_ fault: Fault) async throws {
    let bench = TestBench()
    let isBroken = Text(nil)
    let engine = try await open(
      bench,
      [
        PromptSection("p") { _ in
          guard isBroken.value != nil else { return "P" }
          if fault == .throwing { throw HookFault() }
          await Event().wait()
          return "late"
        },
        PromptSection("never") { _ in throw HookFault() },
      ]
    )
    _ = try await bench.ask(engine)
    isBroken.value = "yes"
    async let second = bench.ask(engine)
    if fault == .hanging {
      await bench.clock.waitForSleeper(ofExactly: .seconds(2))
      bench.clock.advance(by: .seconds(2))
      await bench.clock.waitForSleeper(ofExactly: .seconds(5))
      bench.clock.advance(by: .seconds(5))
    }
    #expect(try await second.status == .done)
    #expect(shown == #"{"p":"<p>\nP\n</p>"}"#)
    #expect(bench.reports.all.map(\.extensionName) == ["ext", "ext", "ext"])
    try await bench.end(engine)
  }

  @Test func `a section may commit, because no line is held for it`() async throws {
    let bench = TestBench()
    let engines = Log<Engine>()
    let engine = try await open(
      bench,
      [
        PromptSection("p") { _ in
          try await engines.all.first?.configure(.root, ["thinkingLevel": "low"])
          return "P"
        }
      ]
    )
    engines.add(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(bench.reports.all.isEmpty)
    try await bench.end(engine)
  }

  @Test func `after a reset one entry says everything again`() async throws {
    let bench = TestBench()
    let engine = try await open(bench, [PromptSection("p", text: "P")])
    try await engine.configure(.root, ["instructions": "Be brief."])
    _ = try await bench.ask(engine)
    _ = try await engine.reset(.root)
    _ = try await bench.ask(engine)
    let wanted: JSON = [
      "p": "<p>\nP\n</p>", "instructions": "<instructions>\nBe brief.\n</instructions>",
    ]
    #expect(shown == wanted.compactText)
    let system = try await TestBench.entries(engine).filter { $0.kind == "pi.system" }
    #expect(system.count == 2)
    #expect(system.last?.model?.first?["sections"]?.compactText == wanted.compactText)
    try await bench.end(engine)
  }

  @Test func `the sections of an uninstalled extension are taken back`() async throws {
    let bench = TestBench()
    let registry = Registry()
    try registry.install(Extension(name: "ext", sections: [PromptSection("p", text: "P")]))
    let engine = try await Engine.open(
      bench.memory,
      Engine.Options(
        models: model,
        registry: registry,
        settings: { Settings() },
        clock: bench.clock,
        report: { bench.reports.add($0) }
      )
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    registry.uninstall("ext")
    _ = try await bench.ask(engine)
    #expect(shown == "{}")
    try registry.install(Extension(name: "ext", sections: [PromptSection("p", text: "new")]))
    _ = try await bench.ask(engine)
    #expect(shown == #"{"p":"<p>\nnew\n</p>"}"#)
    try await bench.end(engine)
  }
}
