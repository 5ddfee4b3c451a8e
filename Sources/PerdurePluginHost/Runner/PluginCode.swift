internal import PerdureModel
import PerdureValue

/// The code of a plugin: where it is, and how it is reached.
enum PluginCode: Sendable {
  /// In this process.
  case mapped(MappedCode)
  /// In a process of its own.
  case runner(any RemotePlugin)

  static let loadName = Immortals.name("load")
  static let doneName = Immortals.name("done")
  static let cancelName = Immortals.name("on_cancel")

  /// Whether the plugin has something to stop.
  var hasDeactivate: Bool {
    switch self {
    case .mapped(let code): code.hasDeactivate
    case .runner(let body): body.hasDeactivate
    }
  }

  /// Makes the plugin ready for calls; `nil` when that takes too long.
  func activate(_ core: PluginCore) async -> Result<Void, PluginRefusal>? {
    switch self {
    case .mapped(let code):
      await PluginFiles.control(core) { () throws(PluginRefusal) in try code.activate() }
    case .runner(let body): await body.activate()
    }
  }

  /// Asks the plugin to stop; `nil` when it did not return.
  func deactivate(_ core: PluginCore, ticket: UInt64, deadline: UInt64) async -> Int32? {
    switch self {
    case .mapped(let code):
      let answer = await PluginFiles.control(core) { () throws(PluginRefusal) in
        code.deactivate(ticket: ticket, deadline: deadline)
      }
      guard case .success(let status)? = answer else { return nil }
      return status
    case .runner(let body): return await body.deactivate(ticket: ticket, deadline: deadline)
    }
  }

  /// Ends the plugin; `false` when it did not return.
  func destroy(_ core: PluginCore) async -> Bool {
    switch self {
    case .mapped(let code):
      await PluginFiles.control(core) { () throws(PluginRefusal) in code.destroy() } != nil
    case .runner(let body): await body.destroy()
    }
  }
}

/// A plugin whose code is in another process, as its host sees it.
protocol RemotePlugin: AnyObject, Sendable {
  var hasDeactivate: Bool { get }
  /// The id of the process, while there is one.
  var processID: Int32? { get }
  /// Lets a plugin that was given up be started again.
  func clearQuarantine()
  func activate() async -> Result<Void, PluginRefusal>?
  func deactivate(ticket: UInt64, deadline: UInt64) async -> Int32?
  func destroy() async -> Bool
  /// Starts a call; `left` runs when the plugin's code has returned.
  func start(
    _ call: PluginCall,
    target: ImmortalName,
    input: [UInt8],
    deadline: UInt64,
    left: @escaping @Sendable (_ nanoseconds: Int64) -> Void
  )
}

/// The process that has calls, as the calls see it.
protocol RemoteCalls: AnyObject, Sendable {
  /// Tells that a call is cancelled.
  func cancel(_ call: UInt64, _ reason: CancelReason)
  /// Gives credit back.
  func giveCredit(_ bytes: Int, to call: UInt64)
  /// Ends the process, because it keeps a call for too long.
  func abandon()
}

/// The host of a runner, as the plugin's core in the runner sees it.
protocol PluginRelay: AnyObject, Sendable {
  /// Sends how a call ended; returns what the plugin is told.
  func complete(_ call: PluginCall, _ answer: CallAnswer) -> Int32
  /// Sends a frame of output.
  func emit(_ payload: Payload, on call: PluginCall) -> BorderCode?
  /// Asks the host for an operation; 0 as the id means that no answer is wanted.
  func ask(_ request: PluginRequest, _ id: UInt64, _ input: JSONObject)
  /// Takes a request back.
  func cancel(_ request: UInt64)
  /// Tells of a broken promise.
  func strike(_ what: String)
}
