import Dispatch
import Synchronization

/// A gate in front of a disk: once it is shut, whoever comes waits until it is opened.
package final class DiskGate: Sendable {
  private let isShut = Atomic(false)
  private let arrived = DispatchSemaphore(value: 0)
  private let opened = DispatchSemaphore(value: 0)

  /// Makes an open gate.
  package init() {}

  /// Lets the next one who comes wait.
  package func shut() { isShut.store(true, ordering: .sequentiallyConsistent) }

  /// Waits if the gate is shut; called on the thread that uses the disk.
  package func pass() {
    guard isShut.exchange(false, ordering: .sequentiallyConsistent) else { return }
    arrived.signal()
    opened.wait()
  }

  /// Returns once somebody waits.
  package func somebodyWaits() async {
    await withCheckedContinuation { waiter in
      DispatchQueue.global().async { [self] in
        arrived.wait()
        waiter.resume()
      }
    }
  }

  /// Lets the one who waits go on.
  package func open() { opened.signal() }
}
