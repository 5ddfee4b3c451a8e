import FaultyDisk
import Foundation
import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Runs over SQLite on a disk that fails in the middle.
@Suite(.timeLimit(.minutes(5))) struct DiskFailureTests {
  @Test(arguments: FaultyDisk.Fault.allCases)
  func `a disk that fails under a run fails its session, and the run goes on elsewhere`(
    fault: FaultyDisk.Fault
  ) async throws {
    let whole = try await play(FaultyDisk(fault))
    #expect(whole.code == nil)
    #expect(whole.calls > 50)
    var sessions = 0
    // A prime distance meets all kinds of calls in time.
    for call in stride(from: 3, through: whole.calls, by: 7) {
      let (_, code) = try await play(FaultyDisk(fault, at: call))
      let known: [PerdureError.Code?] = [
        // Upkeep may fail unnoticed; opening tells the reason itself.
        nil, .sessionFailed, .storageFailed, .storeUnwritable, .storeUnreadable,
      ]
      #expect(known.contains(code), "call \(call)")
      if code == .sessionFailed { sessions += 1 }
    }
    #expect(sessions > 0)
  }

  @Test func `nobody outside sees a commit that a slow disk does not have yet`() async throws {
    let folder = URL(filePath: "/tmp/perdure-disk-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let gate = DiskGate()
    let disk = FaultyDisk { _ in gate.pass() }
    let path = folder.appending(path: "store.sqlite").path
    let storage = try await SQLiteStorage.open(path: path, vfs: disk.name)
    let session = try await Session.open(storage, clock: ManualClock())
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let seen = Log<Int64>()
    let cancel = session.subscribe { seen.add($0.sequence) }
    gate.shut()
    let commit = Task {
      try await session.commit { tx in
        _ = try await tx.append(EntryDraft(kind: "test", data: 1), to: .root)
      }
    }
    await gate.somebodyWaits()
    #expect(seen.all == [])
    gate.open()
    try await commit.value
    #expect(seen.all == [2])
    cancel()
    try await session.close()
    withExtendedLifetime(disk) {}
  }

  /// Plays a tool round over a disk, and then goes on over a good one.
  private func play(_ disk: FaultyDisk) async throws -> (calls: Int, code: PerdureError.Code?) {
    let folder = URL(filePath: "/tmp/perdure-disk-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "store.sqlite").path
    let model = calling(("a", "echo", ["text": "one"]), ("b", "echo", ["text": "two"]))
    let code = await failure(of: model, path, disk)
    // As a process leaves the files that ends here: whoever is next makes the index of the log anew.
    let left = folder.appending(path: "left.sqlite").path
    for suffix in ["", "-wal"] {
      try? FileManager.default.copyItem(atPath: path + suffix, toPath: left + suffix)
    }
    try await goOn(model, left, "call \(disk.count)")
    return (disk.count, code)
  }

  /// Plays the round; returns how it failed.
  private func failure(
    of model: ScriptedModel,
    _ path: String,
    _ disk: FaultyDisk
  ) async -> PerdureError.Code? {
    var code: PerdureError.Code?
    var bench = TestBench()
    do {
      let storage = try await SQLiteStorage.open(path: path, vfs: disk.name)
      bench.front = { _ in storage }
      let engine = try await bench.open(model, tools: [echo])
      do {
        _ = try await bench.start(engine)
        _ = try await bench.ask(engine)
      } catch {
        code = (error as? PerdureError)?.code
      }
      await engine.waitUntilQuiet()
      try? await engine.close()
      // Told on another thread than the one that is thrown the error, but before the end.
      if code != nil { #expect(bench.reports.all.map(\.type) == ["session_failed"]) }
    } catch {
      code = (error as? PerdureError)?.code ?? "unknown"
    }
    return code
  }

  private func goOn(_ model: ScriptedModel, _ path: String, _ about: Comment) async throws {
    var bench = TestBench()
    let storage = try await SQLiteStorage.open(path: path, durability: .normal)
    let integrity = try await storage.inspect {
      try $0.rows("PRAGMA integrity_check") { $0.string(0) }
    }
    #expect(integrity == ["ok"], about)
    bench.front = { _ in storage }
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.session.liveTasks.isEmpty, about)
    #expect(try await StoreInvariants.violations(of: storage) == [], about)
    try await engine.close()
  }
}
