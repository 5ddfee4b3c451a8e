import PerdureValue
import Synchronization

/// A call as the host made it.
struct GivenCall: Sendable {
  var id: UInt64
  var parent: UInt64
  var deadline: UInt64
  var target: String
  var payload: Payload
}

/// What the calls of one plugin share; made once for each life of the plugin.
final class PluginCore: Sendable {
  private struct State {
    /// The calls that are not answered; a task is absent for the moment in which it is made.
    var running: [UInt64: Task<Void, Never>?] = [:]
    var waiters: [CheckedContinuation<Void, Never>] = []
    var settings: JSON = [:]
    var handlers: [String: Contribution.Handler]
  }

  let tables: HostTables
  /// The first values of the plugin's documents, by kind.
  let initialDocuments: [String: JSON]
  private let plugin: any Plugin
  private let state: Mutex<State>

  /// Makes the plugin that `Plugin.main` named and compares it with its manifest.
  init(_ tables: HostTables, manifest: JSON) throws(PluginError) {
    guard let type = RegisteredPlugin.type else {
      throw PluginError(.internal, "the plugin has no type with the attribute @main")
    }
    let plugin = type.init()
    let table = try HandlerTable(plugin.contributions, manifest)
    self.tables = tables
    self.plugin = plugin
    initialDocuments = table.initialDocuments
    state = Mutex(State(handlers: table.handlers))
  }

  var settings: JSON { state.withLock { $0.settings } }
  var host: PluginHost { PluginHost(core: self) }

  func activate() async -> PluginError? {
    do {
      try await plugin.activate(host)
      return nil
    } catch { return PluginError(error) }
  }

  /// Begins a call; returns why it does not.
  func start(_ given: GivenCall) -> PluginError.Code? {
    let handler: Contribution.Handler? = state.withLock { state in
      guard let handler = state.handlers[given.target] else { return nil }
      state.running[given.id] = .some(nil)
      return handler
    }
    guard let handler else { return .unsupported }
    let task = Task { await self.run(given, handler) }
    state.withLock { state in
      // It may be over already.
      if state.running[given.id] != nil { state.running[given.id] = task }
    }
    tables.watch(given.id, for: self)
    return nil
  }

  /// Runs the handler and answers the call, whatever the handler does.
  private func run(_ given: GivenCall, _ handler: Contribution.Handler) async {
    do {
      let input = try given.payload.json()
      if given.target == "settings.changed", let settings = input["settings"] {
        state.withLock { $0.settings = settings }
      }
      let call = PluginCall(core: self, given: given, input: input)
      tables.complete(given.id, try await handler(call))
    } catch { tables.complete(given.id, PluginError(error)) }
    let waiters = state.withLock { state in
      state.running[given.id] = nil
      guard state.running.isEmpty else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Cancels the task of a call that the host gives up.
  func cancel(_ call: UInt64) {
    state.withLock { $0.running[call] ?? nil }?.cancel()
  }

  /// Tells the host once every call is answered and the plugin has stopped what is its own.
  func deactivate(_ ticket: UInt64) {
    Task {
      await calls()
      await plugin.deactivate()
      tables.tell(0, "lifecycle.stopped", Payload(["ticket": .string(String(ticket))]))
    }
  }

  /// Returns when no call is under way.
  private func calls() async {
    await withCheckedContinuation { waiter in
      let isIdle = state.withLock { state in
        if !state.running.isEmpty { state.waiters.append(waiter) }
        return state.running.isEmpty
      }
      if isIdle { waiter.resume() }
    }
  }

  /// Lets go of the plugin's code; the host answers nothing any more.
  func destroy() { state.withLock { $0.handlers = [:] } }

  /// Asks the host for something and waits for its end; a cancelled task gives the request up.
  func request(_ call: UInt64, _ operation: String, _ payload: Payload) async throws -> Payload {
    let request = PendingRequest()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        request.wait(with: continuation)
        if let code = tables.start(call, operation, payload, request) {
          request.end(.failure(PluginError(code, "the host refuses the operation \(operation)")))
        }
      }
    } onCancel: {
      if let id = request.giveUp() { tables.cancel(id) }
    }
  }
}

/// A request of the plugin until it is over.
final class PendingRequest: Sendable {
  private struct State {
    var id: UInt64?
    var isGivenUp = false
    var isOver = false
    var continuation: CheckedContinuation<Payload, any Error>?
  }

  private let state = Mutex(State())

  func wait(with continuation: CheckedContinuation<Payload, any Error>) {
    state.withLock { $0.continuation = continuation }
  }

  /// Takes the number under which it runs; returns whether it was given up meanwhile.
  func begin(as id: UInt64) -> Bool {
    state.withLock { state in
      state.id = id
      return state.isGivenUp && !state.isOver
    }
  }

  /// Marks it as given up and returns what to cancel.
  func giveUp() -> UInt64? {
    state.withLock { state in
      state.isGivenUp = true
      return state.isOver ? nil : state.id
    }
  }

  func end(_ result: Result<Payload, PluginError>) {
    let continuation = state.withLock { state in
      state.isOver = true
      defer { state.continuation = nil }
      return state.continuation
    }
    continuation?.resume(with: result.mapError { $0 as any Error })
  }
}

/// The type that `Plugin.main` named.
enum RegisteredPlugin {
  private static let stored = Mutex<(any Plugin.Type)?>(nil)

  static var type: (any Plugin.Type)? { stored.withLock { $0 } }
  static func set(_ type: any Plugin.Type) { stored.withLock { $0 = type } }
}
