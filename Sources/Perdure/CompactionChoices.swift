import PerdureEngine
public import PerdureModel

extension HarnessSettings {
  /// When the older part of what a model is shown becomes a summary, and how much stays.
  public struct Compaction: Sendable, Equatable {
    /// What is different for one model; what is `nil` is as for all.
    public struct Override: Sendable, Equatable {
      public var isEnabled: Bool?
      public var reserveTokens: Int?
      public var keepRecentTokens: Int?
      public var backgroundTokens: Int?

      /// Makes a choice that differs in nothing.
      public init() {}
    }

    /// Whether it happens by itself; `Conversation.compact` does it in any case.
    public var isEnabled = true
    /// Tokens of the context window that are kept free for the answer.
    public var reserveTokens = 16_384
    /// Tokens of the newest messages that stay as they are.
    public var keepRecentTokens = 20_000
    /// How many tokens before the limit a summary is begun in the background; 0 for never.
    public var backgroundTokens = 32_768
    /// What is different for some models.
    public var modelOverrides: [ModelReference: Override] = [:]

    /// Makes the default choices.
    public init() {}

    var engine: CompactionSettings {
      var settings = CompactionSettings()
      settings.policy.isEnabled = isEnabled
      settings.policy.reserveTokens = Int64(reserveTokens)
      settings.policy.keepRecentTokens = Int64(keepRecentTokens)
      settings.policy.backgroundTokens = Int64(backgroundTokens)
      settings.modelOverrides = modelOverrides.mapValues { override in
        var value = CompactionSettings.Override()
        value.isEnabled = override.isEnabled
        value.reserveTokens = override.reserveTokens.map { Int64($0) }
        value.keepRecentTokens = override.keepRecentTokens.map { Int64($0) }
        value.backgroundTokens = override.backgroundTokens.map { Int64($0) }
        return value
      }
      return settings
    }
  }
}
