import PerdureModel
import PerdureStorage
import PerdureTestKit
import Synchronization

/// Remembers the batches that were applied.
final class RecordingStorage: ForwardingStorage {
  let base: any Storage
  private let recorded = Mutex<[[Batch]]>([])

  init(_ base: any Storage) { self.base = base }

  var groups: [[Batch]] { recorded.withLock { $0 } }
  var batches: [Batch] { groups.flatMap { $0 } }

  func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    recorded.withLock { $0.append(group) }
    try await base.apply(group, expecting: expected, nextId: nextId)
  }
}

/// Gives others a turn before and after each call.
final class SlowStorage: ForwardingStorage {
  let base: any Storage

  init(_ base: any Storage) { self.base = base }

  func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result {
    await Task.yield()
    let result = try await call()
    await Task.yield()
    return result
  }
}

/// Keeps a copy of the store as it is after every commit.
final class CopyingStorage: ForwardingStorage {
  private let memory: MemoryStorage
  private let copies = Mutex<[MemoryStorage]>([])

  init(_ memory: MemoryStorage) { self.memory = memory }

  var base: any Storage { memory }
  var all: [MemoryStorage] { copies.withLock { $0 } }

  // A crash may keep any prefix of a group, so each of its commits is one.
  func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    var counters = expected
    for batch in group {
      try await memory.apply([batch], expecting: counters, nextId: nextId)
      counters = try await memory.counters()
      copies.withLock { $0.append(MemoryStorage(continuing: memory)) }
    }
    if group.isEmpty { try await memory.apply([], expecting: expected, nextId: nextId) }
  }
}

/// Works until something happens, and never again.
final class BreakableStorage: ForwardingStorage {
  let base: any Storage
  private let isBroken: Event

  init(_ base: any Storage, _ isBroken: Event) {
    self.base = base
    self.isBroken = isBroken
  }

  func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result {
    if writes, isBroken.hasHappened {
      throw PerdureError(.storeUnwritable, "the disk is gone")
    }
    return try await call()
  }
}
