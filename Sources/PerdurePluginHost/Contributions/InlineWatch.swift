import PerdureModel
import Synchronization

/// Watches a contribution that promises to answer within 50 microseconds on the caller's thread.
final class InlineWatch: Sendable {
  static let limit: Int64 = 50_000
  static let allowance = 20

  /// So many calls in time make up for one that was late: a thread may lose its processor.
  static let forgiven = 1_000

  private let overruns = Atomic(0)
  private let inTime = Atomic(0)

  /// Whether the promise is still believed.
  var isOn: Bool { overruns.load(ordering: .relaxed) < Self.allowance }

  /// Takes what one call took; each that broke the promise is a strike.
  func note(_ nanoseconds: Int64, answered: Bool, _ label: String, _ core: PluginCore) {
    if answered, nanoseconds <= Self.limit { return forgive() }
    let count = overruns.wrappingAdd(1, ordering: .relaxed).newValue
    core.strike(
      answered
        ? "took \(nanoseconds / 1_000) microseconds for the inline \(label), and 50 are allowed"
        : "did not answer the inline \(label) inside start"
    )
    guard count == Self.allowance else { return }
    core.environment.report(
      Report(
        type: "plugin_inline_dropped",
        message: "the \(label) of plugin \(core.id) is not run inline any more, because it was late"
          + " \(Self.allowance) times",
        extensionName: core.id
      )
    )
  }

  private func forgive() {
    guard overruns.load(ordering: .relaxed) > 0 else { return }
    let count = inTime.wrappingAdd(1, ordering: .relaxed).newValue
    if count.isMultiple(of: Self.forgiven) { overruns.wrappingSubtract(1, ordering: .relaxed) }
  }
}
