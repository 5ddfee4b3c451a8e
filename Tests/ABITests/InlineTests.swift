import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// A clock that goes on by a fixed step each time it is read.
private final class SteppingClock: HostClock {
  private let step: Int64
  private let reads = Atomic<Int64>(0)

  init(step: Int64) { self.step = step }

  func now() -> Int64 { 1 }
  func monotonic() -> Int64 { reads.wrappingAdd(1, ordering: .relaxed).newValue * step }
  func sleep(nanoseconds: Int64) async {
    await SystemClock().sleep(nanoseconds: nanoseconds)
  }
}

/// Contributions that promise to answer at once, on the thread of whoever calls.
@Suite(.timeLimit(.minutes(5))) struct InlineTests {
  private static func hook(_ more: JSONObject = [:]) -> JSONObject {
    var hook: JSONObject = ["point": "beforeTool", "role": "guard", "inline": true]
    for (key, value) in more { hook[key] = value }
    return ["hooks": [.object(hook)]]
  }

  private func input() throws -> HookedCall {
    HookedCall(id: "c1", name: "work", arguments: [:])
  }

  /// Calls the hook `count` times, without an engine.
  private func call(_ plugin: ScriptedPlugin, _ count: Int) async throws -> [CallDecision] {
    let hook = try #require(plugin.contribution.hooks.first)
    guard case .beforeTool(let body) = hook.handler else { return [] }
    var decisions: [CallDecision] = []
    for _ in 0..<count {
      decisions.append(try await body(input(), DetachedContext(taskId: #require(TaskID(2)))))
    }
    return decisions
  }

  @Test func `an inline hook decides`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook(),
      script: ["hook:beforeTool": ["answer": ["deny": ["reason": "no"]]]]
    )
    #expect(try await bench.run([plugin]).codes == ["blocked"])
    #expect(bench.reports.messages("plugin_inline_dropped") == [])
  }

  @Test func `an inline wrap may ask for next`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      ["wraps": [["tool": "work", "inline": true]]],
      script: ["wrap:tool:work": ["ops": [["op": "next"]], "last": true]]
    )
    #expect(try await bench.run([plugin]).text == ScriptedBench.workText)
  }

  @Test func `an inline hook can ask for nothing`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook(),
      script: ["hook:beforeTool": ["ops": [["op": "clock"]]]]
    )
    _ = try await bench.run([plugin])
    #expect(bench.results == ["result -7"])
    #expect(bench.logs.last?.json["reason"] == "not_here")
  }

  @Test func `an inline hook that is late twenty times is not run inline any more`() async throws {
    let reports = Reports()
    let plugin = try await ScriptedPlugin.load(
      Self.hook(),
      reports: reports,
      clock: SteppingClock(step: 60_000)
    )
    #expect(try await call(plugin, 19).count == 19)
    #expect(reports.messages("plugin_inline_dropped") == [])
    #expect(reports.strikes.count == 19)
    _ = try await call(plugin, 1)
    #expect(reports.messages("plugin_inline_dropped").count == 1)
    _ = try await call(plugin, 5)
    #expect(reports.strikes.count == 20)
    try await plugin.close()
  }

  @Test func `an inline hook that does not answer inside start is a strike and still waited for`()
    async throws
  {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook(["deadlineMs": 50]),
      script: ["hook:beforeTool": ["hang": true]]
    )
    let run = try await bench.run([plugin])
    #expect(run.codes == ["blocked"])
    #expect(bench.reports.strikes.contains { $0.contains("did not answer the inline") })
  }
}
