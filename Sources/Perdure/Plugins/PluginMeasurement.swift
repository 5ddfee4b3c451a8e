import PerdurePluginHost
public import PerdureValue

/// Something that a plugin has measured.
public struct PluginMeasurement: Sendable, Equatable {
  /// What is done with the value.
  public enum Kind: String, Sendable, CaseIterable {
    /// It is added to what was counted so far.
    case add
    /// It takes the place of the value before.
    case set
    /// It is one of many, of which the distribution matters.
    case observe
  }

  /// The id of the plugin.
  public var plugin: String
  public var name: String
  public var kind: Kind
  public var value: Double
  public var labels: JSONObject

  init(_ metric: PluginMetric) {
    plugin = metric.plugin
    name = metric.name
    kind =
      switch metric.kind {
      case .add: .add
      case .set: .set
      case .observe: .observe
      }
    value = metric.value
    labels = metric.labels
  }
}
