internal import PerdureModel
import Synchronization

/// Watches how long a tool stays in `start`, which may not block unless the manifest says so.
final class StartPace: Sendable {
  // Ten times what the contract allows: a thread that waits for a processor is no fault.
  static let limit: Int64 = 500_000_000

  private let isBlocking: Bool
  private let tool: String
  private let core: PluginCore
  private let wasReported = Mutex(false)

  init(isBlocking: Bool, tool: String, core: PluginCore) {
    self.isBlocking = isBlocking
    self.tool = tool
    self.core = core
  }

  /// Takes the time that one call took to return, and reports the first that took too long.
  func note(_ nanoseconds: Int64) {
    guard !isBlocking, nanoseconds > Self.limit else { return }
    let isFirst = wasReported.withLock { wasReported in
      defer { wasReported = true }
      return !wasReported
    }
    guard isFirst else { return }
    core.environment.report(
      Report(
        type: "plugin_slow_start",
        message: "tool \(tool) of plugin \(core.id) took \(nanoseconds / 1_000_000) ms to begin,"
          + " and 50 ms are allowed; say \"blocking\": true in its manifest, or work on a thread",
        extensionName: core.id
      )
    )
  }
}
