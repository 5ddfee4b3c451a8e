import FaultyDisk
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Disks that take their time: nothing is confirmed early, nothing is lost, nobody gives up.
@Suite(.timeLimit(.minutes(5))) struct SlowDiskTests {
  enum Kind: String, CaseIterable { case sqlite, jsonl }

  private final class Confirmation: Sendable {
    private let flag = Atomic(false)

    var came: Bool { flag.load(ordering: .sequentiallyConsistent) }

    func come() { flag.store(true, ordering: .sequentiallyConsistent) }
  }

  private let folder = TemporaryFolder()
  private let gate = DiskGate()

  /// A store whose disk waits at the gate, with one entry.
  private func open(_ kind: Kind) async throws -> (store: DirectStore, disk: FaultyDisk) {
    let disk = FaultyDisk { [gate] _ in gate.pass() }
    let storage: any Storage =
      switch kind {
      case .sqlite:
        try await SQLiteStorage.open(path: folder.file("store.sqlite"), vfs: disk.name)
      case .jsonl:
        try await JSONLStorage.open(path: folder.file("store")) { [gate] in
          FaultyFiles($0) { _ in gate.pass() }
        }
      }
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2, "old")], extras: [])
    return (store, disk)
  }

  private func reopened(_ kind: Kind) async throws -> any Storage {
    switch kind {
    case .sqlite: try await SQLiteStorage.open(path: folder.file("store.sqlite"))
    case .jsonl: try await JSONLStorage.open(path: folder.file("store"))
    }
  }

  @Test(arguments: Kind.allCases)
  func `a commit is confirmed when the disk has it, and not before`(kind: Kind) async throws {
    let (store, disk) = try await open(kind)
    let confirmed = Confirmation()
    gate.shut()
    try await withThrowingTaskGroup { group in
      group.addTask {
        _ = try await store.commit([entry(3, "new")], extras: [])
        confirmed.come()
      }
      await gate.somebodyWaits()
      #expect(!confirmed.came)
      gate.open()
      try await group.waitForAll()
    }
    #expect(try await store.reads.entry(known(3))?.entry.data == "new")
    await store.close()
    withExtendedLifetime(disk) {}
  }

  @Test(arguments: Kind.allCases)
  func `reads during a slow commit are answered`(kind: Kind) async throws {
    let (store, disk) = try await open(kind)
    gate.shut()
    try await withThrowingTaskGroup { group in
      group.addTask { _ = try await store.commit([entry(3, "new")], extras: []) }
      await gate.somebodyWaits()
      for _ in 0..<10 {
        group.addTask {
          let found = try await store.reads.entry(known(2))
          #expect(found?.entry.data == "old")
        }
      }
      gate.open()
      try await group.waitForAll()
    }
    await store.close()
    withExtendedLifetime(disk) {}
  }

  @Test(arguments: Kind.allCases)
  func `a close during a slow commit loses nothing`(kind: Kind) async throws {
    let (store, disk) = try await open(kind)
    gate.shut()
    try await withThrowingTaskGroup { group in
      group.addTask { _ = try await store.commit([entry(3, "new")], extras: []) }
      await gate.somebodyWaits()
      group.addTask { await store.close() }
      gate.open()
      try await group.waitForAll()
    }
    withExtendedLifetime(disk) {}
    let again = try await reopened(kind)
    #expect(try await again.entry(known(3))?.entry.data == "new")
    #expect(try await again.counters() == StoreCounters(nextSequence: 3, nextId: 4))
    await again.close()
  }
}
