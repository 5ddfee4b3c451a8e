import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// The plugin that runs scripts, in a real harness.
struct Desk: Sendable {
  let harness: Harness
  let root: Conversation
  let plugin: LoadedPlugin
  let reports: Reports
  let model: ScriptedModel

  /// What the plugin is built and loaded with.
  struct Form: Sendable {
    var location = StoreLocation.memory
    var permissions: JSON = [
      "conversations": "own", "tools": ["inner", "safe"], "models": true, "approvals": true,
      "secrets": ["TOKEN"],
    ]
    var version = 1
    var migrates: [Int] = []
    var clock: any HostClock = SystemClock()
    var others: [Extension] = []
    /// Makes the events of answers that were put off.
    var fetch: ScriptedModel.Fetch = { _ in [] }
    var environment: EnvironmentChoice?
  }

  private static func quoted(_ text: String) -> String {
    "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"")
      + "\""
  }

  /// The path of the plugin in this form.
  static func path(_ form: Form) throws -> String {
    let versions = form.migrates.map { "\($0)" }.joined(separator: ",")
    return try Fixtures.plugin(
      "desk",
      flags: [
        "-DPERMISSIONS=" + quoted(form.permissions.compactText),
        "-DVERSION=\"\(form.version)\"", "-DMIGRATES=\"[\(versions)]\"",
      ]
    )
  }

  /// A model that makes the call that the text of the user describes, and then says "done".
  static func model(_ fetch: @escaping ScriptedModel.Fetch = { _ in [] }) -> ScriptedModel {
    ScriptedModel(fetch: fetch) { request in
      let text = request.messages.last { $0["role"] == "user" }?["content"]?.text ?? ""
      guard ScriptedModel.turn(of: request) == 0, let call = try? JSON(parsing: text),
        let tool = call["tool"]?.text
      else { return ScriptedModel.text("done: \(text)") }
      return ScriptedModel.calls(("c1", tool, call["arguments"] ?? [:]))
    }
  }

  /// Opens it; whoever opens it closes it.
  static func open(_ form: Form = Form()) async throws -> Desk {
    let reports = Reports()
    var environment = PluginBench.environment(
      reports,
      clock: form.clock,
      copies: try Fixtures.folder()
    )
    environment.secret = { _, name in name == "TOKEN" ? "open sesame" : nil }
    let plugin = try await PluginFiles.load(
      path: path(form),
      place: Place.current.place,
      environment: environment
    )
    let model = model(form.fetch)
    let harness = try await Harness.open(
      form.location,
      models: model,
      extensions: [plugin.extensionValue] + form.others,
      environment: form.environment,
      clock: form.clock,
      onReport: { reports.add($0) }
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return Desk(harness: harness, root: root, plugin: plugin, reports: reports, model: model)
  }

  func close() async throws {
    try await harness.close()
    _ = await plugin.close()
  }

  /// Opens it, runs `body` and closes it.
  static func with<Value>(
    _ form: Form = Form(),
    _ body: (Desk) async throws -> Value
  ) async throws -> Value {
    let desk = try await open(form)
    do {
      let value = try await body(desk)
      try await desk.close()
      return value
    } catch {
      try await desk.close()
      throw error
    }
  }

  /// One operation of a script.
  static func op(_ name: String, _ input: JSON = [:]) -> JSON {
    ["op": .string(JSONString(name)), "input": input]
  }

  /// The operation `commit` with these steps.
  static func commit(_ steps: JSON..., tx: String? = nil) -> JSON {
    var input: JSONObject = ["steps": .array(steps)]
    if let tx { input["tx"] = .string(JSONString(tx)) }
    return op("commit", .object(input))
  }

  /// A new conversation.
  func conversation() async throws -> Conversation {
    try await harness.createConversation(agent: .init(model: ScriptedModel.reference))
  }

  /// Lets the model call a tool and returns the entry of its result.
  func result(
    _ tool: String = "run",
    _ arguments: JSON,
    in conversation: Conversation? = nil
  ) async throws -> EntryRecord {
    let text: JSON = ["tool": .string(JSONString(tool)), "arguments": arguments]
    let conversation = conversation ?? root
    _ = try await conversation.submit(text.compactText).wait()
    let view = try await conversation.view()
    return try #require(view.entries.last { $0.kind == "pi.tool-result" })
  }

  /// The text of a result.
  static func text(_ entry: EntryRecord) -> String {
    entry.model?.first?["content"]?.array?.first?["text"]?.text ?? ""
  }

  /// Lets a tool run operations and returns what each came to.
  func run(
    _ ops: [JSON],
    tool: String = "run",
    in conversation: Conversation? = nil
  ) async throws -> [JSON] {
    let entry = try await result(tool, ["ops": .array(ops)], in: conversation)
    return try #require(try JSON(parsing: Self.text(entry)).array)
  }

  /// Lets a tool run one operation and returns what it came to.
  func ask(_ op: String, _ input: JSON = [:]) async throws -> JSON {
    try #require(try await run([Self.op(op, input)]).first)
  }

  /// What the scripts of other calls told under a name, as arrays of what each came to.
  func told(_ what: String) -> [[JSON]] {
    reports.messages("plugin_log").compactMap { line in
      guard let start = line.range(of: "[info] \(what) {") else { return nil }
      let json = line[line.index(before: start.upperBound)...]
      return (try? JSON(parsing: String(json)))?["answers"]?.array
    }
  }

  /// Creates a task of the plugin in a commit of a tool and returns its record once it has ended.
  func job(
    _ script: JSON,
    type: String = "desk.job",
    waits: Bool = true
  ) async throws -> TaskRecord {
    let step: JSON = [
      "do": "task.create", "as": "job", "type": .string(JSONString(type)), "owner": "conversation",
      "input": ["script": script], "background": true,
    ]
    let answers = try await run([Self.commit(step)])
    let id = try #require(TaskID(answers.first?["answer"]?["ids"]?["job"]), "\(answers)")
    if !waits { return try #require(try await harness.task(id)) }
    return try await harness.waitForTask(id)
  }
}
