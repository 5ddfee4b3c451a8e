import PerdureValue
import Synchronization

/// The way from a sandbox to hosts that rules name: a proxy on a socket that listens inside.
///
/// Whoever lets go of it closes it.
final class NetworkGate: Sendable {
  /// What it does at most.
  struct Limits: Sendable {
    /// Connections at once; further ones wait.
    var connections = 128
    var headBytes = 64 << 10
    /// Seconds until the head of a request is there.
    var headSeconds: Int64 = 30
    /// Seconds until a host is connected to.
    var connectSeconds: Int64 = 30
    /// Seconds in which nothing comes from either side.
    var idleSeconds: Int64 = 300
    /// Seconds of one connection.
    var seconds: Int64 = 7_200
    /// Bytes of one connection in one direction.
    var bytes: UInt64 = 64 << 30
  }

  /// Where it listens inside.
  static let port: UInt16 = 3_128

  private let core: GateCore

  /// Serves a listener, which it takes over.
  init(
    _ listener: Descriptor,
    _ rules: NetworkRules,
    _ resolve: @escaping NetworkResolver,
    _ limits: Limits = Limits()
  ) throws(SystemFailure) {
    let core = try GateCore(rules, resolve, limits)
    self.core = core
    // The thread alone has the listener: a network exists as long as one of its sockets does.
    guard WorkThreads.startPlain({ core.accept(listener) }) else { throw SystemFailure(Int32(11)) }
  }

  deinit { close() }

  /// Ends all connections, and takes no more.
  func close() { core.closing.ring() }

  /// How many decisions there were.
  var mark: Int { core.mark }

  /// What was decided since a mark.
  func decisions(since mark: Int) -> [GateDecision] { core.decisions(since: mark) }
}

/// Returns the addresses of a name, or none if there is no such name; may block.
package typealias NetworkResolver = @Sendable (String) -> [NetworkAddress]

/// What a gate decided about one request.
struct GateDecision: Sendable, Equatable {
  enum Outcome: String, Sendable {
    case allowed, refused, failed
  }

  /// Absent if the request named none that could be.
  var target: NetworkTarget?
  var outcome: Outcome
  var reason: String?
  /// What was connected to.
  var address: NetworkAddress?

  var json: JSON {
    var object: JSONObject = ["outcome": .string(outcome.rawValue)]
    if let target { object["target"] = .string("\(target)") }
    if let reason { object["reason"] = .string(reason) }
    if let address { object["address"] = .string("\(address)") }
    return .object(object)
  }
}

/// What the threads of a gate share.
final class GateCore: Sendable {
  private struct State {
    var connections = 0
    var decided = 0
    /// The last ones.
    var decisions: [GateDecision] = []
  }

  private static let mostDecisions = 256

  let rules: NetworkRules
  let resolve: NetworkResolver
  let limits: NetworkGate.Limits
  /// Rings from the moment on in which it is closed.
  let closing: Bell
  /// Rings when a connection has ended.
  private let freed: Bell
  private let state = Mutex(State())

  init(
    _ rules: NetworkRules,
    _ resolve: @escaping NetworkResolver,
    _ limits: NetworkGate.Limits
  ) throws(SystemFailure) {
    self.rules = rules
    self.resolve = resolve
    self.limits = limits
    closing = try Bell()
    freed = try Bell()
  }

  /// Whether it is closed.
  var isClosed: Bool { !Readiness.wait(closing.descriptor, until: 0).isEmpty }

  // MARK: Decisions

  var mark: Int { state.withLock { $0.decided } }

  func note(_ decision: GateDecision) {
    state.withLock { state in
      state.decided += 1
      state.decisions.append(decision)
      if state.decisions.count > Self.mostDecisions { state.decisions.removeFirst() }
    }
  }

  func decisions(since mark: Int) -> [GateDecision] {
    state.withLock { Array($0.decisions.suffix(max(0, $0.decided - mark))) }
  }

  // MARK: Connections

  /// Takes connections, each for a thread of its own, until the gate is closed.
  func accept(_ listener: Descriptor) {
    while true {
      let isFull = state.withLock { $0.connections } >= limits.connections
      let ready = Readiness.wait(
        closing.descriptor,
        isFull ? nil : listener,
        freed.descriptor,
        until: nil
      )
      if ready.contains(.first) { return }
      if ready.contains(.third) { freed.silence() }
      guard ready.contains(.second) else { continue }
      do throws(SystemFailure) {
        start(try GateSocket.accepted(from: listener))
      } catch {
        // Who gave up is none; for a lack of descriptors it is tried again, but not without a pause.
        let pause = monotonicNanoseconds() + 50_000_000
        if Readiness.wait(closing.descriptor, until: pause).contains(.first) { return }
      }
    }
  }

  private func start(_ client: GateSocket) {
    state.withLock { $0.connections += 1 }
    let isStarted = WorkThreads.startPlain { [self] in
      GateConnection(client: client, core: self).serve()
      ended()
    }
    if !isStarted { ended() }
  }

  private func ended() {
    state.withLock { $0.connections -= 1 }
    freed.ring()
  }
}
