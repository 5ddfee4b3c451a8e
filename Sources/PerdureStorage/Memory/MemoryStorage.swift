package import PerdureModel
import Synchronization

/// A store that lives as long as the process; what the other backends do is measured against it.
package final class MemoryStorage: InMemoryReads {
  private let state: Mutex<MemoryState>
  private let isClosed = Mutex(false)

  /// Makes an empty store.
  package init() { state = Mutex(MemoryState()) }

  /// Opens the store again that `other` was, closed or not.
  package init(continuing other: MemoryStorage) {
    state = Mutex(other.state.withLock { $0 })
  }

  package func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    try checkOpen()
    try state.withLock { try $0.apply(group, expecting: expected, nextId: nextId) }
  }

  package func close() async { isClosed.withLock { $0 = true } }

  private func checkOpen() throws {
    if isClosed.withLock({ $0 }) { throw PerdureError(.closed, "the store is closed") }
  }

  package func read<Value>(_ body: (MemoryState) throws -> sending Value) throws -> sending Value {
    try checkOpen()
    return try state.withLock { try body($0) }
  }
}
