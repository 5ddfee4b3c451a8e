import PerdureEngine
import PerdureModel
import PerdureValue
import Synchronization

/// The settings of a scenario, which its steps can change.
final class ScenarioSettings: Sendable {
  private let settings: Mutex<Settings>

  init() {
    var settings = Settings()
    settings.partialIntervalMs = 0
    settings.outputIntervalMs = 0
    settings.compaction.policy.isEnabled = false
    settings.compaction.policy.keepRecentTokens = 1
    settings.retry.baseDelayMs = 300
    self.settings = Mutex(settings)
  }

  var current: Settings { settings.withLock { $0 } }

  /// Changes what a step names.
  func change(_ change: JSONObject) throws {
    try settings.withLock { settings in
      for (name, value) in change { try Self.set(name, value, in: &settings) }
    }
  }

  private static func set(_ name: JSONString, _ value: JSON, in settings: inout Settings) throws {
    let text = value.text ?? ""
    switch name {
    case "retryDelayMs": settings.retry.baseDelayMs = value.int ?? 0
    case "compaction":
      if let enabled = value["enabled"] { settings.compaction.policy.isEnabled = enabled == true }
      if let tokens = value["keepRecentTokens"]?.int {
        settings.compaction.policy.keepRecentTokens = tokens
      }
    case "steeringMode": settings.steeringMode = try known(QueueMode(rawValue: text), value)
    case "followUpMode": settings.followUpMode = try known(QueueMode(rawValue: text), value)
    case "afterFailedRun":
      settings.afterFailedRun = try known(AfterFailedRun(rawValue: text), value)
    case "toolExecution": settings.runsToolsSequentially = text == "sequential"
    default: throw PerdureError(.invalidInput, "nobody knows the setting '\(name.string)'")
    }
  }

  private static func known<Value>(_ found: Value?, _ value: JSON) throws -> Value {
    guard let found else {
      throw PerdureError(.invalidInput, "nobody knows the choice \(value.compactText)")
    }
    return found
  }
}
