package import PerdureValue

/// Choices that are read whenever something is decided, and never stored.
package struct Settings: Sendable, Equatable {
  /// When a failed request is sent again.
  package struct Retry: Sendable, Equatable {
    package var isEnabled = true
    package var maxRetries = 3
    package var baseDelayMs: Int64 = 2_000
    package var maxAgentDelayMs: Int64 = 60_000
    package init() {}
  }

  /// How much may be spent.
  package struct Budget: Sendable, Equatable {
    package var tokens: Int64?
    /// In the currency of the provider's prices.
    package var cost: Double?
    package init(tokens: Int64? = nil, cost: Double? = nil) {
      self.tokens = tokens
      self.cost = cost
    }

    var isUnlimited: Bool { tokens == nil && cost == nil }

    var json: JSON {
      var object = JSONObject()
      object["tokens"] = tokens.map { .int($0) }
      object["cost"] = cost.map { .double($0) }
      return .object(object)
    }
  }

  /// The extensions of a conversation that has chosen none; `nil`: all, as they were installed.
  package var extensions: [String]?
  /// How many answers of the model a run may have; `nil`: any number.
  package var maxTurns: Int?
  package var runBudget = Budget()
  package var conversationBudget = Budget()
  package var retry = Retry()
  /// When the older part of a context is replaced by a summary.
  package var compaction = CompactionSettings()
  /// How often a growing answer is committed, in milliseconds.
  package var partialIntervalMs: Int64 = 100
  /// How often the output of a running tool is committed, in milliseconds.
  package var outputIntervalMs: Int64 = 100
  /// Whether the calls of one answer run one after another.
  package var runsToolsSequentially = false
  /// After how many crashes in a row a task is parked; at least 1.
  package var restartLimit: Int64 = 5
  /// How long a document that nobody uses stays in memory, in milliseconds; `nil` for ever.
  package var documentRetentionMs: Int64? = 600_000
  /// How long the context of an idle conversation stays in memory, in milliseconds; `nil` for ever.
  package var contextRetentionMs: Int64? = 600_000
  /// How many inputs that steer a run a boundary places.
  package var steeringMode = QueueMode.oneAtATime
  /// How many inputs that follow a run a boundary places.
  package var followUpMode = QueueMode.oneAtATime
  /// What becomes of the inputs that are queued behind a run that failed.
  package var afterFailedRun = AfterFailedRun.keep
  /// Whether calls that need an approval wait for it; else they are denied at once.
  package var waitsForApprovals = false
  /// After how long a question without a time of its own is answered with no; `nil` never.
  package var approvalExpiryMs: Int64?
  /// Handed to the provider with each request.
  package var stream = JSONObject()

  package init() {}

  var queueModes: QueueModes { QueueModes(steering: steeringMode, followUp: followUpMode) }

  /// The settings as plugins and applications see them.
  package var json: JSON {
    var object = fixed
    object["extensions"] = extensions.map { .array($0.map { .string($0) }) }
    object["maxTurns"] = maxTurns.map { .int($0) }
    if !runBudget.isUnlimited { object["runBudget"] = runBudget.json }
    if !conversationBudget.isUnlimited { object["conversationBudget"] = conversationBudget.json }
    return .object(object)
  }

  private var fixed: JSONObject {
    [
      "retry": [
        "enabled": .bool(retry.isEnabled), "maxRetries": .int(retry.maxRetries),
        "baseDelayMs": .int(retry.baseDelayMs), "maxAgentDelayMs": .int(retry.maxAgentDelayMs),
      ],
      "compaction": compaction.json,
      "progress": [
        "partialIntervalMs": .int(partialIntervalMs), "outputIntervalMs": .int(outputIntervalMs),
      ],
      "toolExecution": .string(runsToolsSequentially ? "sequential" : "parallel"),
      "steeringMode": .string(steeringMode.rawValue),
      "followUpMode": .string(followUpMode.rawValue),
      "afterFailedRun": .string(afterFailedRun.rawValue), "restartLimit": .int(restartLimit),
      "approvals": waitsForApprovals ? "wait" : "deny",
      "approvalExpiryMs": approvalExpiryMs.map { .int($0) } ?? .null,
      "documentRetentionMs": documentRetentionMs.map { .int($0) } ?? .null,
      "contextRetentionMs": contextRetentionMs.map { .int($0) } ?? .null, "stream": .object(stream),
    ]
  }
}
