import Glibc
import PerdureModel
import PerdureTestKit
import Synchronization

/// A storage that kills this process with SIGKILL at a chosen call.
final class KillingStorage: ForwardingStorage {
  /// When the process dies at the chosen call.
  enum Moment: String { case before, after }

  let base: any Storage
  private let target: Int
  private let moment: Moment
  private let calls = Mutex(0)
  private let applied = Mutex<[Int]>([])

  init(_ base: any Storage, at target: Int, _ moment: Moment) {
    self.base = base
    self.target = target
    self.moment = moment
  }

  /// How many calls there have been.
  var count: Int { calls.withLock { $0 } }

  /// Which of them wrote.
  var groups: [Int] { applied.withLock { $0 } }

  func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result {
    let number = calls.withLock { calls in
      calls += 1
      return calls
    }
    if writes { applied.withLock { $0.append(number) } }
    if number == target, moment == .before { die() }
    let result = try await call()
    if number == target, moment == .after { die() }
    return result
  }

  private func die() {
    kill(getpid(), SIGKILL)
    // The signal may reach another thread first.
    while true { pause() }
  }
}
