internal import PerdureModel
import Synchronization

/// Bounds how many calls run at once, first come first served.
final class CallPermits: Sendable {
  private struct State {
    var free: Int
    var nextTicket = 0
    var waiting: [(ticket: Int, continuation: CheckedContinuation<Bool, Never>)] = []
    var cancelled: Set<Int> = []
  }

  private let state: Mutex<State>

  /// Makes `count` permits.
  init(_ count: Int) { state = Mutex(State(free: count)) }

  /// Waits for a permit; throws when the task is cancelled before it gets one.
  func take() async throws {
    let ticket = state.withLock { state in
      state.nextTicket += 1
      return state.nextTicket
    }
    let granted = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let answer: Bool? = state.withLock { state in
          if state.cancelled.remove(ticket) != nil { return false }
          if state.free > 0 {
            state.free -= 1
            return true
          }
          state.waiting.append((ticket, continuation))
          return nil
        }
        if let answer { continuation.resume(returning: answer) }
      }
    } onCancel: {
      let waiter = state.withLock { state in
        guard let index = state.waiting.firstIndex(where: { $0.ticket == ticket }) else {
          state.cancelled.insert(ticket)
          return nil as CheckedContinuation<Bool, Never>?
        }
        return state.waiting.remove(at: index).continuation
      }
      waiter?.resume(returning: false)
    }
    // A cancellation that came after the answer left a mark behind.
    state.withLock { _ = $0.cancelled.remove(ticket) }
    guard granted else { throw CancellationError() }
  }

  /// Gives a permit back.
  func give() {
    let next = state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.free += 1
        return nil as CheckedContinuation<Bool, Never>?
      }
      return state.waiting.removeFirst().continuation
    }
    next?.resume(returning: true)
  }
}

/// Permits that are given back when the call is over and the plugin's code has returned from it.
final class HeldPermits: Sendable {
  private let permits: [CallPermits]
  private let state = Mutex<State>(State())

  private struct State {
    var inside = 0
    var over = false
    var given = false
  }

  init(_ permits: [CallPermits]) { self.permits = permits }

  /// Notes that the plugin's code is about to be entered.
  func enter() { state.withLock { $0.inside += 1 } }

  /// Notes that the plugin's code has returned.
  func leave() { change { $0.inside -= 1 } }

  /// Notes that nobody waits for the call any more; may be said twice.
  func finish() { change { $0.over = true } }

  private func change(_ body: (inout State) -> Void) {
    let last = state.withLock { state in
      body(&state)
      guard state.over, state.inside == 0, !state.given else { return false }
      state.given = true
      return true
    }
    if last { for permit in permits { permit.give() } }
  }
}
