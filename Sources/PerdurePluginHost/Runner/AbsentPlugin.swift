internal import PerdureModel

/// The code of a plugin that is not run, because it did harm before.
final class AbsentPlugin: RemotePlugin {
  private let core: PluginCore

  init(core: PluginCore) { self.core = core }

  var hasDeactivate: Bool { false }
  var processID: Int32? { nil }

  // Only a new load makes something of it that can be run.
  func clearQuarantine() {}

  func activate() async -> Result<Void, PluginRefusal>? { .success(()) }
  func deactivate(ticket: UInt64, deadline: UInt64) async -> Int32? { 0 }
  func destroy() async -> Bool { true }

  func start(
    _ call: PluginCall,
    target: ImmortalName,
    input: [UInt8],
    deadline: UInt64,
    left: @escaping @Sendable (_ nanoseconds: Int64) -> Void
  ) {
    core.settle(call, .failed(core.downError))
    left(0)
  }
}
