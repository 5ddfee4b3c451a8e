public import PerdureModel
import PerdurePluginHost
import PerdureValue

/// Who needs a plugin now.
struct PluginUsers: Sendable {
  /// A task that cannot go on without it.
  struct NeedyTask: Sendable {
    var id: TaskID
    /// Its kind, or the tool whose call waits.
    var what: String
  }

  var calls: [String] = []
  var tasks: [NeedyTask] = []

  /// How many of each are named in the sentence.
  private static let toldUsers = 5

  /// Makes the error of a plugin that cannot go because of them.
  func error(_ id: String, isDraining: Bool) -> PerdureError {
    var parts: [String] = []
    if !calls.isEmpty { parts.append(Self.list(calls, "call")) }
    if !tasks.isEmpty { parts.append(Self.list(tasks.map { "\($0.id) (\($0.what))" }, "task")) }
    return PerdureError(
      .pluginInUse,
      "the plugin \(id) is needed by \(parts.joined(separator: " and "))",
      hint: isDraining || calls.isEmpty
        ? "wait until they have ended, or block the tasks and cancel the calls with --force"
        : "let calls end first with --drain, or cancel them and block tasks with --force",
      details: [
        "calls": .array(calls.map { .string($0) }),
        "tasks": .array(tasks.map { ["id": $0.id.json, "kind": .string($0.what)] }),
      ]
    )
  }

  private static func list(_ names: [String], _ word: String) -> String {
    let told = names.prefix(toldUsers).joined(separator: ", ")
    let rest = names.count > toldUsers ? " and \(names.count - toldUsers) more" : ""
    return "\(names.count == 1 ? "the \(word)" : "the \(word)s") \(told)\(rest)"
  }
}

extension PerdureError.Code {
  /// A plugin that is to go is needed by calls or tasks.
  public static let pluginInUse: Self = "plugin_in_use"
}

extension Harness {
  /// The live tasks whose code a plugin brings.
  func tasks(of manifest: Manifest) async throws -> [PluginUsers.NeedyTask] {
    let types = Set(manifest.tasks.map { $0.type })
    guard !types.isEmpty else { return [] }
    // Not only those in memory.
    return try await inspect().tasks.filter { types.contains($0.record.kind.string) }
      .map { PluginUsers.NeedyTask(id: $0.record.id, what: $0.record.kind.string) }
  }

  /// The calls of a plugin's tools that wait for an answer.
  func questions(about manifest: Manifest) async throws -> [PluginUsers.NeedyTask] {
    let names = Set(manifest.tools.map { $0.name })
    guard !names.isEmpty else { return [] }
    return try await pendingApprovals().compactMap { approval in
      guard let name = approval.tool, names.contains(name) else { return nil }
      return PluginUsers.NeedyTask(id: approval.id, what: "a call of \(name) that waits")
    }
  }
}
