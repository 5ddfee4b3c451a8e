import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization

/// A store in memory that keeps a copy of itself after every commit.
final class StepRecorder: ForwardingStorage {
  private let memory = MemoryStorage()
  private let made = Mutex<[MemoryStorage]>([])

  var base: any Storage { memory }

  /// The store after each of its commits.
  var copies: [MemoryStorage] { made.withLock { $0 } }

  // Of a group some commits may survive alone.
  func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    var counters = expected
    for (place, batch) in group.enumerated() {
      let greatest = batch.writes.compactMap(\.newId).max() ?? 0
      let next = place == group.count - 1 ? nextId : max(counters.nextId, greatest + 1)
      try await memory.apply([batch], expecting: counters, nextId: next)
      counters = try await memory.counters()
      made.withLock { $0.append(MemoryStorage(continuing: memory)) }
    }
  }
}

extension StorageWrite {
  /// The id of the record that the write creates or replaces.
  fileprivate var newId: Int64? {
    switch self {
    case .conversation(let record): record.id.value
    case .entry(let record): record.id.value
    case .task(let record): record.id.value
    case .submission(let record): record.id.value
    case .createDocument(let record, _, _), .copyDocument(let record, _, _): record.id.value
    case .changeDocument, .retireDocument, .remove: nil
    }
  }
}
