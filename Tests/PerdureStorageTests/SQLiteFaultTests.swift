import FaultyDisk
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct SQLiteFaultTests {
  struct Trial: Sendable, CustomTestStringConvertible {
    let fault: FaultyDisk.Fault
    let durability: Durability

    /// Whether the store is made on the failing disk; otherwise it is there, and empty.
    var isNew: Bool { durability == .full }

    var testDescription: String { "a call that \(fault.rawValue), \(durability.rawValue)" }

    static let all = FaultyDisk.Fault.allCases.flatMap { fault in
      Durability.allCases.map { Trial(fault: fault, durability: $0) }
    }
  }

  @Test(arguments: Trial.all)
  func `whatever call fails, a store keeps what it confirmed and only whole groups`(
    trial: Trial
  ) async throws {
    let script = try await FaultScript(seed: 7, groups: 3)
    let folder = TemporaryFolder()
    try await openStore(folder).close()
    let empty = trial.isNew ? nil : read(folder.file("store.sqlite"))
    var call = 1
    while try await meets(trial, at: call, script, empty) { call += 1 }
    #expect(call > (trial.isNew ? 40 : 20))
  }

  /// Plays the script over a disk that fails in one call; `false` if that call never came.
  private func meets(
    _ trial: Trial,
    at call: Int,
    _ script: FaultScript,
    _ empty: [UInt8]?
  ) async throws -> Bool {
    let folder = TemporaryFolder()
    if let empty { write(empty, to: folder.file("store.sqlite")) }
    let about: Comment = "call \(call)"
    let disk = FaultyDisk(trial.fault, at: call)
    var confirmed = 0
    var tried = 0
    do {
      let storage = try await SQLiteStorage.open(
        path: folder.file("store.sqlite"),
        durability: trial.durability,
        vfs: disk.name
      )
      for group in script.groups {
        do {
          let counters = try await storage.counters()
          try await storage.apply(group, expecting: counters, nextId: script.nextId)
        } catch let error as PerdureError {
          #expect([.storageFailed, .storeUnwritable].contains(error.code), about)
          #expect(error.hint != nil, about)
          tried = group.count
          break
        }
        confirmed += group.count
      }
      await storage.close()
    } catch let error as PerdureError {
      // It could not be opened.
      #expect(error.hint != nil, about)
    }
    if trial.fault == .dies {
      // What a process leaves that ends in the middle of a call.
      for suffix in ["", "-wal"] where folder.names.contains("store.sqlite" + suffix) {
        let left = read(folder.file("store.sqlite" + suffix))
        write(left, to: folder.file("left.sqlite" + suffix))
      }
    }
    let path = folder.file(trial.fault == .dies ? "left.sqlite" : "store.sqlite")
    try await check(path, script, confirmed: confirmed, tried: tried, about)
    return disk.hasFailed
  }

  private func check(
    _ path: String,
    _ script: FaultScript,
    confirmed: Int,
    tried: Int,
    _ about: Comment
  ) async throws {
    let storage = try await SQLiteStorage.open(path: path, durability: .normal)
    let integrity = try await storage.inspect { database in
      try database.rows("PRAGMA integrity_check") { $0.string(0) }
    }
    #expect(integrity == ["ok"], about)
    let kept = Int(try await storage.counters().nextSequence) - 1
    #expect(kept == confirmed || kept == confirmed + tried, about)
    #expect(try await dump(storage, script.last) == script.contents[kept], about)
    for batch in script.groups.joined().dropFirst(kept) {
      let counters = try await storage.counters()
      try await storage.apply([batch], expecting: counters, nextId: script.nextId)
    }
    #expect(try await dump(storage, script.last) == script.contents.last, about)
    await storage.close()
  }
}
