import FaultyDisk
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What a commit asks of the disk.
@Suite struct GatheringTests {
  /// The calls that came to a disk.
  private final class Calls: Sendable {
    private let state = Mutex<[FaultyDisk.Call]>([])
    var all: [FaultyDisk.Call] { state.withLock { $0 } }
    func add(_ call: FaultyDisk.Call) { state.withLock { $0.append(call) } }
    func forget() { state.withLock { $0 = [] } }
  }

  private let folder = TemporaryFolder()

  @Test(arguments: [1, 40])
  func `a commit writes the log with one call and waits for the disk once`(
    entries: Int
  ) async throws {
    let calls = Calls()
    let disk = FaultyDisk { calls.add($0) }
    let path = folder.file("store.sqlite")
    let store = try await DirectStore(try await SQLiteStorage.open(path: path, vfs: disk.name))
    _ = try await store.commit([entry(2, "old")], extras: [])
    calls.forget()
    _ = try await store.commit((3..<3 + Int64(entries)).map { entry($0, "new") }, extras: [])
    #expect(calls.all == [.write, .sync])
    await store.close()
    withExtendedLifetime(disk) {}
  }

  @Test(arguments: [Durability.full, .normal])
  func `another connection reads a commit as soon as it is confirmed`(
    durability: Durability
  ) async throws {
    let path = folder.file("store.sqlite")
    let storage = try await SQLiteStorage.open(path: path, durability: durability)
    let store = try await DirectStore(storage)
    let reader = try await SQLiteStorage.open(path: path, readOnly: true)
    for id in Int64(2)..<12 {
      _ = try await store.commit([entry(id, "new")], extras: [])
      #expect(try await reader.entry(known(id))?.entry.data == "new")
    }
    await reader.close()
    await store.close()
  }
}
