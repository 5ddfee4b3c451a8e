import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// A plugin whose manifest and answers a test writes down; see Tests/Fixtures/Plugins/scripted.c.
struct ScriptedPlugin: Sendable {
  let loaded: LoadedPlugin
  private let folders: [String]

  /// Loads a plugin of this id; `members` are further members of its manifest, `script` its answers.
  static func load(
    _ members: JSONObject,
    id: String = "test.plugin",
    script: JSONObject = [:],
    reports: Reports,
    clock: any HostClock = SystemClock(),
    isRequired: Bool = false
  ) async throws -> ScriptedPlugin {
    let path = try file(id, members)
    let folder = URL(filePath: path).deletingLastPathComponent().path
    let copies = try Fixtures.folder()
    var environment = PluginBench.environment(reports, clock: clock, copies: copies)
    environment.isRequired = isRequired
    do {
      return ScriptedPlugin(
        loaded: try await PluginFiles.load(
          path: path,
          settings: script,
          place: Place.current.place,
          environment: environment
        ),
        folders: [folder, copies]
      )
    } catch {
      for folder in [folder, copies] { try FileManager.default.removeItem(atPath: folder) }
      throw error
    }
  }

  /// Closes the plugin and removes its files.
  func close() async throws {
    await loaded.close()
    for folder in folders { try FileManager.default.removeItem(atPath: folder) }
  }

  /// Makes the file of a plugin, with its manifest beside it.
  static func file(_ id: String, _ members: JSONObject) throws -> String {
    let path = try Fixtures.copy(Fixtures.plugin("scripted"))
    var manifest: JSONObject = [
      "manifest": 1, "id": .string(id), "version": "1.0.0", "runtime": "c",
      "execution": ["graceMs": 100], "settings": ["schema": ["type": "object"]],
    ]
    for (key, value) in members { manifest[key] = value }
    let sidecar = path.dropLast(3) + ".perdure.json"
    try Data(JSON.object(manifest).encoded).write(to: URL(filePath: String(sidecar)))
    return path
  }

  var contribution: Extension { loaded.extensionValue }
}

/// A harness with a tool `work`, which the model calls once for "go", and with plugins.
final class ScriptedBench: Sendable {
  let reports = Reports()
  let model: ScriptedModel
  let clock: any HostClock
  private let answer: @Sendable (ModelRequest) -> [[ModelEvent]]

  /// What the tool answers.
  static let workText = "the work is done"

  init(
    arguments: JSON = ["n": 1],
    clock: any HostClock = SystemClock(),
    answer: (@Sendable (ModelRequest) -> [[ModelEvent]])? = nil
  ) {
    self.clock = clock
    self.answer =
      answer ?? { request in
        guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("all done") }
        return ScriptedModel.calls(("c1", "work", arguments))
      }
    model = ScriptedModel(self.answer)
  }

  static func work(
    _ execute: @escaping Tool.Execute = { _ in .text(workText) }
  ) -> Tool {
    Tool(
      name: "work",
      description: "Works.",
      parameters: ["type": "object", "properties": ["n": ["type": "integer"]]],
      grace: .milliseconds(200),
      execute: execute
    )
  }

  func plugin(
    _ members: JSONObject,
    id: String = "test.plugin",
    script: JSONObject = [:],
    isRequired: Bool = false
  ) async throws -> ScriptedPlugin {
    try await .load(
      members,
      id: id,
      script: script,
      reports: reports,
      clock: clock,
      isRequired: isRequired
    )
  }

  /// Opens the harness.
  func open(
    _ plugins: [ScriptedPlugin],
    at location: StoreLocation = .memory,
    tool: Tool = work(),
    extensions: [Extension] = [],
    settings: HarnessSettings = HarnessSettings()
  ) async throws -> (Harness, Conversation) {
    let reports = reports
    let harness = try await Harness.open(
      location,
      models: model,
      extensions: [Extension(name: "app", tools: [tool])] + extensions
        + plugins.map(\.contribution),
      settings: { settings },
      clock: clock,
      onReport: { reports.add($0) }
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return (harness, root)
  }

  /// What came of one run.
  struct Run: Sendable {
    var submission: SubmissionRecord
    var entries: [EntryRecord]

    /// The message with the result of the tool, if it was called.
    var result: JSON? { entries.last { $0.kind == "pi.tool-result" }?.model?.first }
    /// The text that the model sees of it.
    var text: String {
      (result?["content"]?.array ?? []).compactMap { $0["text"]?.text }.joined(separator: "|")
    }
    /// The codes of the diagnostics of the result.
    var codes: [String] {
      let entry = entries.last { $0.kind == "pi.tool-result" }
      return (entry?.data?["diagnostics"]?.array ?? []).compactMap { $0["code"]?.text }
    }
    /// Why the input was left unanswered, if it was.
    var unanswered: String? {
      if case .unanswered(let reason, _, _) = submission.state { reason } else { nil }
    }
  }

  /// Asks "go" and waits until nothing runs.
  func run(_ harness: Harness, _ root: Conversation) async throws -> Run {
    let submission = try await root.submit("go")
    let settled = try await submission.wait()
    await harness.waitUntilQuiet()
    return Run(submission: settled, entries: try await root.view().entries)
  }

  /// Opens, asks once and closes everything.
  func run(
    _ plugins: [ScriptedPlugin],
    tool: Tool = work(),
    extensions: [Extension] = [],
    settings: HarnessSettings = HarnessSettings()
  ) async throws -> Run {
    let (harness, root) = try await open(
      plugins,
      tool: tool,
      extensions: extensions,
      settings: settings
    )
    let run = try await run(harness, root)
    try await harness.close()
    for plugin in plugins { try await plugin.close() }
    return run
  }

  /// The targets that were called, in order.
  var targets: [String] { logs.filter { !$0.name.contains(" ") }.map(\.name) }

  /// What operations came to, such as "result 0".
  var results: [String] { logs.filter { $0.name.contains(" ") }.map(\.name) }

  /// What the plugins logged: a name and JSON.
  var logs: [(name: String, json: JSON)] {
    reports.messages("plugin_log").compactMap { line in
      guard line.hasPrefix("[info] "), let brace = line.firstIndex(of: "{"),
        let fields = try? JSON(parsing: String(line[brace...])), let json = fields["is"]
      else { return nil }
      return (line[..<brace].dropFirst(7).trimmingCharacters(in: .whitespaces), json)
    }
  }

  /// The input of the last call of a target.
  func input(_ target: String) throws -> JSON {
    try #require(logs.last { $0.name == target }?.json)
  }
}
