package import PerdureModel
import PerdureValue

/// When the older part of a context is replaced by a summary, and how much is kept.
package struct CompactionPolicy: Sendable, Equatable {
  /// Whether it happens by itself; a summary that somebody asks for is made in any case.
  package var isEnabled = true
  /// Tokens of the context window that are kept free for the answer.
  package var reserveTokens: Int64 = 16_384
  /// Tokens of the newest messages that a summary leaves as they are.
  package var keepRecentTokens: Int64 = 20_000
  /// How many tokens before the limit a summary is begun in the background; 0 for never.
  package var backgroundTokens: Int64 = 32_768

  package init() {}

  /// Returns the policy for a context window of this size; 0 if it is not known.
  ///
  /// A small window cannot hold what is meant for a large one: where what is kept and what is
  /// reserved would fill it, each of them gets at most a quarter.
  package func fitted(to window: Int64) -> CompactionPolicy {
    guard window > 0, reserveTokens.addingSaturated(keepRecentTokens) >= window else { return self }
    var policy = self
    let quarter = max(1, window / 4)
    policy.reserveTokens = min(reserveTokens, quarter)
    policy.keepRecentTokens = min(keepRecentTokens, quarter)
    policy.backgroundTokens = min(backgroundTokens, quarter)
    return policy
  }

  /// The estimate above which a request waits for a summary.
  package func blockingLimit(of window: Int64) -> Int64 {
    window.addingSaturated(-max(0, reserveTokens))
  }

  /// The estimate above which a summary is begun in the background, or `nil`.
  package func backgroundLimit(of window: Int64) -> Int64? {
    guard backgroundTokens > 0 else { return nil }
    return blockingLimit(of: window).addingSaturated(-backgroundTokens)
  }
}

/// The policy of all models, and what is different for some.
package struct CompactionSettings: Sendable, Equatable {
  /// What is different for one model; what is absent is as for all.
  package struct Override: Sendable, Equatable {
    package var isEnabled: Bool?
    package var reserveTokens: Int64?
    package var keepRecentTokens: Int64?
    package var backgroundTokens: Int64?

    package init() {}
  }

  package var policy = CompactionPolicy()
  /// By the name of the model.
  package var modelOverrides: [ModelReference: Override] = [:]

  package init() {}

  /// Returns the policy for a model.
  package func policy(for model: ModelReference) -> CompactionPolicy {
    guard let override = modelOverrides[model] else { return policy }
    var policy = policy
    if let value = override.isEnabled { policy.isEnabled = value }
    if let value = override.reserveTokens { policy.reserveTokens = value }
    if let value = override.keepRecentTokens { policy.keepRecentTokens = value }
    if let value = override.backgroundTokens { policy.backgroundTokens = value }
    return policy
  }
}

extension CompactionSettings {
  /// As plugins and applications see it.
  var json: JSON {
    var overrides = JSONObject()
    for (model, override) in modelOverrides.sorted(by: { $0.key.name < $1.key.name }) {
      var object = JSONObject()
      object["enabled"] = override.isEnabled.map { .bool($0) }
      object["reserveTokens"] = override.reserveTokens.map { .int($0) }
      object["keepRecentTokens"] = override.keepRecentTokens.map { .int($0) }
      object["backgroundTokens"] = override.backgroundTokens.map { .int($0) }
      overrides[JSONString(model.name)] = .object(object)
    }
    var object: JSONObject = [
      "enabled": .bool(policy.isEnabled), "reserveTokens": .int(policy.reserveTokens),
      "keepRecentTokens": .int(policy.keepRecentTokens),
      "backgroundTokens": .int(policy.backgroundTokens),
    ]
    if !overrides.isEmpty { object["modelOverrides"] = .object(overrides) }
    return .object(object)
  }
}

extension ModelReference {
  /// The name under which usage and overrides are kept.
  var name: String { "\(provider)/\(modelId)" }
}
