import Foundation
import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// The staging layer as the conformance suite sees a store.
private struct StagedConformance: ConformanceStore {
  let store: StagedStore
  /// Whether each commit goes to disk at once; otherwise reads meet what is only staged.
  let flushes: Bool

  var reads: any StorageReads { store }

  func commit(_ writes: [StorageWrite], extras: [ExtraWrite]) async throws -> Int64 {
    let sequence = try await store.stage(writes, extras: extras).sequence
    if flushes { try await store.flush() }
    return sequence
  }

  func mintId() async throws -> Int64 { try store.mintId() }

  func close() async { try? await store.close() }
}

/// How the staging layer is tried.
struct StagedRun: CustomTestStringConvertible, Sendable {
  enum Mode: String, CaseIterable { case unflushed, flushed, reopened }
  enum Backend: String, CaseIterable { case memory, sqlite, jsonl }

  let test: StorageConformance.Case
  let mode: Mode
  let backend: Backend

  var testDescription: String { "\(backend.rawValue), \(mode.rawValue): \(test.name)" }

  static var all: [StagedRun] {
    StorageConformance.cases.flatMap { test in
      Mode.allCases.flatMap { mode in
        Backend.allCases.map { StagedRun(test: test, mode: mode, backend: $0) }
      }
    }
  }
}

@Suite struct StagedStoreTests {
  @Test(arguments: StagedRun.all)
  func `the staging layer keeps what every store must keep`(run: StagedRun) async throws {
    let folder = FileManager.default.temporaryDirectory
      .appending(path: "perdure-staged-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let memory = Mutex(MemoryStorage())
    let harness = try await StorageHarness(reopensAfterCommits: run.mode == .reopened) {
      let storage: any Storage
      switch run.backend {
      case .sqlite:
        storage = try await SQLiteStorage.open(
          path: folder.appending(path: "s.sqlite").path,
          durability: .normal
        )
      case .jsonl:
        storage = try await JSONLStorage.open(
          path: folder.appending(path: "s").path,
          durability: .normal
        )
      case .memory:
        storage = memory.withLock {
          $0 = MemoryStorage(continuing: $0)
          return $0
        }
      }
      let store = try await StagedStore.open(storage, clock: ManualClock())
      return StagedConformance(store: store, flushes: run.mode == .flushed)
    }
    try await run.test.run(harness)
    await harness.close()
  }

  @Test func `commits that are staged together are one group`() async throws {
    let storage = CountingStorage(MemoryStorage())
    let store = try await StagedStore.open(storage, clock: ManualClock())
    _ = try await store.stage([.conversation(ConversationRecord(id: .root))])
    for number in 2...9 {
      let id = try #require(EntryID(Int64(number)))
      _ = try await store.stage(
        [.entry(EntryRecord(id: id, conversationId: .root, kind: "test"))])
    }
    try await store.flush()
    try await store.flush()
    #expect(storage.groups == [9])
    try await store.close()
  }

  @Test func `a storage error is final and tells everybody`() async throws {
    let storage = CountingStorage(MemoryStorage(), failsAt: 1)
    let told = Mutex<[PerdureError]>([])
    let store = try await StagedStore.open(
      storage,
      clock: ManualClock(),
      onFailure: { error in told.withLock { $0.append(error) } }
    )
    _ = try await store.stage([.conversation(ConversationRecord(id: .root))])
    for _ in 0..<2 {
      let error = await #expect(throws: PerdureError.self) { try await store.flush() }
      #expect(error?.code == .sessionFailed)
    }
    let staging = await #expect(throws: PerdureError.self) {
      _ = try await store.stage([.conversation(ConversationRecord(id: .root))])
    }
    #expect(staging?.code == .sessionFailed)
    #expect(told.withLock { $0.count } == 1)
  }

  @Test func `concurrent flushes share groups and all return`() async throws {
    let storage = CountingStorage(MemoryStorage())
    let store = try await StagedStore.open(storage, clock: ManualClock())
    let line = CommitLine()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<200 {
        group.addTask {
          let sequence = try? await line.hold {
            let id = try #require(ConversationID(try store.mintId()))
            return try await store.stage([.conversation(ConversationRecord(id: id))]).sequence
          }
          try? await store.flush(through: sequence ?? 0)
        }
      }
    }
    #expect(storage.groups.reduce(0, +) == 200)
    try await store.close()
  }
}

/// Counts the groups that are applied, and fails on demand.
final class CountingStorage: ForwardingStorage {
  let base: any Storage
  private let failsAt: Int?
  private let sizes = Mutex<[Int]>([])

  init(_ base: any Storage, failsAt: Int? = nil) {
    self.base = base
    self.failsAt = failsAt
  }

  var groups: [Int] { sizes.withLock { $0 } }

  func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    let number = sizes.withLock { sizes in
      sizes.append(group.count)
      return sizes.count
    }
    if number == failsAt { throw PerdureError(.storeUnwritable, "the disk is full") }
    try await base.apply(group, expecting: expected, nextId: nextId)
  }
}
