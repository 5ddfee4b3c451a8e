package import PerdureModel
import Synchronization

/// The sandbox of a policy, which is built again when it was ended from outside.
package final class SandboxSlot: Sendable {
  private typealias Answer = Result<TreeEnvironment, PerdureError>

  private struct State {
    var held: TreeEnvironment
    var host: SandboxHost
    var isClosed = false
    var isBuilding = false
    /// Those who wait for the one that is built.
    var waiters: [CheckedContinuation<Answer, Never>] = []
  }

  /// What somebody who needs the sandbox has to do.
  private enum Step {
    case take(Answer)
    case wait
    case build
  }

  private let policy: SandboxPolicy
  private let state: Mutex<State>
  /// As it was built first.
  package let first: TreeEnvironment

  /// Builds it; blocks, and throws as `TreeEnvironment.sandbox` does.
  package init(_ policy: SandboxPolicy) throws(PerdureError) {
    self.policy = policy
    let host = try SandboxHost(policy)
    first = try TreeEnvironment.sandbox(host, nil)
    state = Mutex(State(held: first, host: host))
  }

  /// The environment as it is now; one that is built again shows the same as the first.
  package func environment() async throws(PerdureError) -> TreeEnvironment {
    let answer: Answer = await withCheckedContinuation { continuation in
      switch step(continuation) {
      case .take(let answer): continuation.resume(returning: answer)
      case .wait: break
      case .build:
        // Building blocks for seconds, which a thread that runs tasks must not.
        if !WorkThreads.startPlain({ [self] in build() }) {
          finish(.failure(Self.refused("no thread can be started to build the sandbox again")))
        }
      }
    }
    return try answer.get()
  }

  /// Ends it with all in it; there is none afterwards.
  package func close() async {
    let held = state.withLock { state in
      state.isClosed = true
      return state.held
    }
    await held.close()
    // One that is being built is ended by whoever builds it.
    let _: Answer = await withCheckedContinuation { continuation in
      let isBuilding = state.withLock { state in
        if state.isBuilding { state.waiters.append(continuation) }
        return state.isBuilding
      }
      if !isBuilding { continuation.resume(returning: .success(held)) }
    }
  }

  private func step(_ continuation: CheckedContinuation<Answer, Never>) -> Step {
    state.withLock { state in
      if state.isClosed { return .take(.failure(Self.refused("the sandbox is closed"))) }
      if !state.isBuilding, state.held.isAlive { return .take(.success(state.held)) }
      state.waiters.append(continuation)
      defer { state.isBuilding = true }
      return state.isBuilding ? .wait : .build
    }
  }

  private func build() {
    let earlier = state.withLock { $0.host }
    let answer = Result { () throws(PerdureError) in
      let host = try SandboxHost(policy, after: earlier)
      return (try TreeEnvironment.sandbox(host, nil), host)
    }
    finish(answer)
  }

  private func finish(_ built: Result<(TreeEnvironment, SandboxHost), PerdureError>) {
    var answer = built.map { $0.0 }
    let isClosed = state.withLock { state in
      if !state.isClosed, case .success(let (environment, host)) = built {
        (state.held, state.host) = (environment, host)
      }
      return state.isClosed
    }
    if isClosed {
      if case .success(let (_, host)) = built {
        // Nobody has it yet, so nothing runs in it.
        host.end()
        host.removeKept()
      }
      answer = .failure(Self.refused("the sandbox is closed"))
    }
    let waiters = state.withLock { state in
      state.isBuilding = false
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume(returning: answer) }
  }

  private static func refused(_ message: String) -> PerdureError {
    PerdureError(.sandboxUnavailable, message, hint: "open it again")
  }
}
