import PerdureValue

/// One question to a plugin.
struct PluginTest: Sendable {
  enum Group: String, CaseIterable, Sendable {
    case file, entry, lifecycle, calls, threads, memory, faults, upgrade, isolation, docs
  }

  var group: Group
  var word: String
  /// What is asked, as a clause.
  var question: String
  /// What to do in general when the test fails.
  var remedy: String
  var limitMs: Int64 = 60_000
  /// Whether a plugin with this manifest has anything to ask.
  var concerns: @Sendable (Manifest) -> Bool = { _ in true }
  /// Whether it is also for functions that a manifest describes; others map the plugin.
  var isForForeign = false
  var body: @Sendable (CheckSubject) throws -> Void

  var name: String { "\(group.rawValue)/\(word)" }

  /// Whether it is asked of a plugin with this manifest.
  func isAsked(of manifest: Manifest) -> Bool {
    concerns(manifest) && (isForForeign || !manifest.isForeign)
  }

  /// All tests that run code of the plugin, in order.
  static let all: [PluginTest] =
    entry + lifecycle + calls + threads + memory + faults + upgrade + isolation + docs
}

/// What one test found.
struct TestFinding {
  enum Outcome: String { case passed, failed, skipped }

  var name: String
  var question: String
  var outcome: Outcome
  var reason: String?
  var remedy: String?
  var milliseconds: Int64 = 0

  var json: JSON {
    var object: JSONObject = [
      "name": .string(name), "group": .string(String(name.prefix { $0 != "/" })),
      "question": .string(question), "outcome": .string(outcome.rawValue),
    ]
    if let reason { object["reason"] = .string(reason) }
    if let remedy { object["remedy"] = .string(remedy) }
    object["ms"] = .int(milliseconds)
    return .object(object)
  }
}
