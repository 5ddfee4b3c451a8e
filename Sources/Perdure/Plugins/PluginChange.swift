public import PerdureModel
import PerdurePluginHost
public import PerdureValue

/// What became of an installed plugin.
public struct PluginChange: Sendable {
  public var id: String
  /// The version that was installed; absent if none was.
  public var from: String?
  /// The version that is installed; absent if it was removed.
  public var to: String?
  /// SHA-256 of the library that is installed, in hexadecimal.
  public var digest: String?
  /// The number of the signer's key; absent without a signature.
  public var signer: String?
  /// Whether that is a signer whom nobody had trusted for this id before.
  public var isFirstUse: Bool
  public var isEnabled: Bool
  /// Whether anything is other than before.
  public var hasChanged: Bool
  /// What it brings, such as "tool grep" or "hook beforeTool (guard)".
  public var registers: [String]
  /// What this version of Perdure does not serve of it.
  public var warnings: [String]
  /// Whether the state of the old version was lost.
  public var hasLostState = false
  /// The tasks that cannot go on any more.
  public var blockedTasks: [TaskID] = []
  /// The calls of the old version that were still under way, such as "tool grep"; they end on it.
  public var lastCalls: [String] = []

  init(_ plan: InstallPlan) {
    id = plan.id
    from = plan.before?.release.version
    to = plan.after?.release.version
    digest = plan.after?.release.digest
    signer = plan.after?.release.signer?.id
    isFirstUse = plan.staged?.isFirstUse ?? false
    isEnabled = plan.after?.state == .enabled
    hasChanged = plan.before != plan.after
    registers = plan.staged.map { $0.description.manifest.registers } ?? []
    warnings = plan.staged?.description.warnings ?? []
  }

  /// The same for programs.
  public var json: JSONObject {
    var object: JSONObject = ["plugin": .string(id), "changed": .bool(hasChanged)]
    object["from"] = from.map { .string($0) }
    object["version"] = to.map { .string($0) }
    object["digest"] = digest.map { .string($0) }
    if to != nil {
      object["signer"] = signer.map { .string($0) } ?? .null
      object["firstUse"] = .bool(isFirstUse)
      object["state"] = .string(isEnabled ? "enabled" : "disabled")
    }
    if !registers.isEmpty { object["registers"] = .array(registers.map { .string($0) }) }
    if !warnings.isEmpty { object["warnings"] = .array(warnings.map { .string($0) }) }
    if hasLostState { object["stateLost"] = true }
    if !blockedTasks.isEmpty { object["blockedTasks"] = .array(blockedTasks.map { $0.json }) }
    if !lastCalls.isEmpty { object["draining"] = .array(lastCalls.map { .string($0) }) }
    return object
  }
}
