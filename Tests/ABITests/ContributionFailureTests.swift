import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// What the failures of hooks, sections and wraps of plugins lead to.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct ContributionFailureTests {
  /// One way to fail, and what it is called.
  struct Way: Sendable, CustomTestStringConvertible {
    var name: String
    var step: JSON
    var says: String
    var testDescription: String { name }
  }

  static let ways: [Way] = [
    Way(name: "throws", step: ["fail": "it broke"], says: "it broke"),
    Way(name: "hangs", step: ["hang": true], says: "did not answer"),
    Way(name: "refuses to start", step: ["refuse": -10], says: "refused to begin (unsupported)"),
    Way(name: "answers no JSON", step: ["text": "plain"], says: "text/plain"),
    Way(name: "answers the wrong type", step: ["answer": ["deny": 1]], says: "not an object"),
    Way(
      name: "says two things",
      step: ["answer": ["deny": ["reason": "no"], "arguments": [:]]],
      says: "members that exclude each other (deny, arguments)"
    ),
    Way(
      name: "changes without the right",
      step: ["answer": ["arguments": [:]]],
      says: "a change without \"changes\""
    ),
    Way(
      name: "answers for another point",
      step: ["answer": ["summary": "short"]],
      says: "a member that beforeTool does not have"
    ),
    Way(
      name: "asks for something unknown",
      step: ["answer": ["must": ["future"], "future": 1]],
      says: "future"
    ),
  ]

  private static func hook(_ role: String) -> JSONObject {
    [
      "hooks": [
        ["point": "beforeTool", "role": .string(role), "deadlineMs": 50, "graceMs": 100]
      ]
    ]
  }

  @Test(arguments: ways)
  func `a guard that fails denies`(_ way: Way) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("guard"),
      script: ["hook:beforeTool": way.step]
    )
    let run = try await bench.run([plugin])
    #expect(run.codes == ["blocked"])
    #expect(run.text.contains("guard test.plugin failed: "))
    #expect(run.text.contains(way.says))
  }

  @Test(arguments: ways)
  func `an observer that fails is reported and the call is made`(_ way: Way) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("observer"),
      script: ["hook:beforeTool": way.step]
    )
    let run = try await bench.run([plugin])
    #expect(run.text == ScriptedBench.workText)
    #expect(bench.reports.messages("extension_error").contains { $0.contains("test.plugin") })
  }

  @Test(arguments: ["deny", "ask"])
  func `a decision by an observer is junk`(_ decision: String) async throws {
    let bench = ScriptedBench()
    let value: JSON =
      decision == "deny" ? ["reason": "no"] : ["key": "k", "title": "may it?"]
    let plugin = try await bench.plugin(
      Self.hook("observer"),
      script: ["hook:beforeTool": ["answer": [JSONString(decision): value]]]
    )
    let run = try await bench.run([plugin])
    #expect(run.text == ScriptedBench.workText)
    #expect(bench.reports.strikes.count == 1)
  }

  @Test func `a question without the permission denies`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("guard"),
      script: ["hook:beforeTool": ["answer": ["ask": ["key": "k", "title": "may it?"]]]]
    )
    let run = try await bench.run([plugin])
    #expect(run.codes == ["blocked"])
    #expect(run.text.contains("approvals"))
  }

  /// The points at which something can be denied, with what a failed guard leads to.
  @Test func `a guard of requests that fails lets none be sent`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      ["hooks": [["point": "beforeRequest", "role": "guard"]]],
      script: ["hook:beforeRequest": ["fail": "it broke"]]
    )
    #expect(try await bench.run([plugin]).unanswered == "refused")
    #expect(bench.model.seen.isEmpty)
  }

  @Test func `a guard of results that fails keeps the result from the model`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      ["hooks": [["point": "afterTool", "role": "guard"]]],
      script: ["hook:afterTool": ["fail": "it broke"]]
    )
    let run = try await bench.run([plugin])
    #expect(run.codes == ["blocked"])
    #expect(!run.text.contains(ScriptedBench.workText))
  }

  // MARK: Plugins that are gone

  @Test(arguments: [("guard", ["blocked"]), ("observer", [])] as [(String, [String])])
  func `while a plugin is down its guards deny`(_ role: String, _ codes: [String]) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(Self.hook(role))
    let (harness, root) = try await bench.open([plugin])
    try await plugin.close()
    #expect(try await bench.run(harness, root).codes == codes)
    #expect(bench.targets.isEmpty)
    try await harness.close()
  }

  @Test func `while a required plugin is down its observers deny, too`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(Self.hook("observer"), isRequired: true)
    let (harness, root) = try await bench.open([plugin])
    try await plugin.close()
    #expect(try await bench.run(harness, root).codes == ["blocked"])
    try await harness.close()
  }

  @Test(arguments: [(true, "refused"), (false, nil)] as [(Bool, String?)])
  func `without a section of a required plugin that is down no prompt is sent`(
    _ isRequired: Bool,
    _ unanswered: String?
  ) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      ["sections": [["key": "policy"]]],
      isRequired: isRequired
    )
    let (harness, root) = try await bench.open([plugin])
    try await plugin.close()
    #expect(try await bench.run(harness, root).unanswered == unanswered)
    #expect(bench.model.seen.isEmpty == isRequired)
    #expect(bench.reports.messages("extension_error").contains { $0.contains("'policy'") })
    try await harness.close()
  }

  @Test(arguments: [("guard", "refused"), ("observer", nil)] as [(String, String?)])
  func `while a plugin is down its guarding wraps of sections let no prompt be sent`(
    _ role: String,
    _ unanswered: String?
  ) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin([
      "wraps": [["section": "policy", "role": .string(JSONString(role))]]
    ])
    let policy = Extension(
      name: "policy",
      sections: [PromptSection("policy", text: "be good")]
    )
    let (harness, root) = try await bench.open([plugin], extensions: [policy])
    try await plugin.close()
    #expect(try await bench.run(harness, root).unanswered == unanswered)
    try await harness.close()
  }

  @Test func `the tools of a plugin that is down are unavailable`() async throws {
    let bench = ScriptedBench(answer: { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("all done") }
      return ScriptedModel.calls(("c1", "lookup", [:]))
    })
    let plugin = try await bench.plugin(
      ["tools": [["name": "lookup", "description": "l", "parameters": ["type": "object"]]]],
      isRequired: true
    )
    let (harness, root) = try await bench.open([plugin])
    try await plugin.close()
    #expect(try await bench.run(harness, root).codes == ["tool_unavailable"])
    #expect(bench.targets.isEmpty)
    try await harness.close()
  }

  @Test(arguments: [(true, ["blocked"]), (false, [])] as [(Bool, [String])])
  func `a required plugin whose process has just died denies`(
    _ isRequired: Bool,
    _ codes: [String]
  ) async throws {
    try await Place.$current.withValue(.runner) {
      let bench = ScriptedBench()
      let plugin = try await bench.plugin(
        Self.hook("observer"),
        script: ["hook:beforeTool": ["crash": true]],
        isRequired: isRequired
      )
      let run = try await bench.run([plugin])
      #expect(run.codes == codes)
      #expect(!bench.reports.messages("plugin_died").isEmpty)
    }
  }

  @Test func `an uninstalled plugin guards nothing`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("guard"),
      script: ["hook:beforeTool": ["fail": "it broke"]]
    )
    let (harness, root) = try await bench.open([plugin])
    #expect(harness.uninstall("test.plugin"))
    let run = try await bench.run(harness, root)
    #expect(run.text == ScriptedBench.workText)
    #expect(bench.targets.isEmpty)
    try await harness.close()
    try await plugin.close()
  }

  // MARK: Wraps

  private static func wrap(_ role: String) -> JSONObject {
    ["wraps": [["tool": "work", "role": .string(role), "deadlineMs": 50, "graceMs": 100]]]
  }

  static let wrapWays = [
    Way(name: "throws", step: ["fail": "it broke"], says: "it broke"),
    Way(name: "hangs", step: ["hang": true], says: "did not answer"),
    Way(name: "refuses to start", step: ["refuse": -10], says: "refused to begin"),
    Way(name: "answers junk", step: ["answer": ["output": 1]], says: "not an array"),
  ]

  @Test(arguments: wrapWays)
  func `an observing wrap that fails before next leaves the tool alone`(_ way: Way) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.wrap("observer"),
      script: ["wrap:tool:work": way.step]
    )
    #expect(try await bench.run([plugin]).text == ScriptedBench.workText)
    #expect(bench.reports.messages("extension_error").contains { $0.contains(way.says) })
  }

  @Test(arguments: wrapWays)
  func `a guarding wrap that fails is a failed call`(_ way: Way) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(Self.wrap("guard"), script: ["wrap:tool:work": way.step])
    let run = try await bench.run([plugin])
    #expect(run.codes == [way.name == "hangs" ? "interrupted" : "tool_error"])
    #expect(!run.text.contains(ScriptedBench.workText))
  }

  @Test func `an observing wrap that fails after next is a failed call`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.wrap("observer"),
      script: ["wrap:tool:work": ["ops": [["op": "next"]], "fail": "it broke"]]
    )
    #expect(try await bench.run([plugin]).codes == ["tool_error"])
  }

  @Test(arguments: [("guard", ["blocked"]), ("observer", [])] as [(String, [String])])
  func `while a plugin is down its guarding wraps deny`(
    _ role: String,
    _ codes: [String]
  ) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(Self.wrap(role))
    let (harness, root) = try await bench.open([plugin])
    try await plugin.close()
    let run = try await bench.run(harness, root)
    #expect(run.codes == codes)
    #expect(run.text.contains(ScriptedBench.workText) == codes.isEmpty)
    try await harness.close()
  }
}
