import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

struct FaultTests {
  struct Trial: Sendable, CustomTestStringConvertible {
    let fault: FaultyFiles.Fault
    let durability: Durability

    var testDescription: String { "a write that \(fault.rawValue), \(durability.rawValue)" }

    static let all = FaultyFiles.Fault.allCases.flatMap { fault in
      Durability.allCases.map { Trial(fault: fault, durability: $0) }
    }
  }

  @Test(arguments: Trial.all)
  func `whatever call fails, a store keeps what it confirmed and only whole commits`(
    trial: Trial
  ) async throws {
    let script = try await FaultScript(seed: 7, groups: 14)
    var call = 1
    while try await meets(trial, at: call, script) { call += 1 }
    #expect(call > 40)
  }

  /// Plays the script over a disk that fails in one call; `false` if that call never came.
  private func meets(_ trial: Trial, at call: Int, _ script: FaultScript) async throws -> Bool {
    let folder = TemporaryFolder()
    let path = folder.file("store")
    let about: Comment = "call \(call)"
    let files = Mutex<FaultyFiles?>(nil)
    var confirmed = 0
    var tried = 0
    do {
      let storage = try await JSONLStorage.open(path: path, durability: trial.durability) { base in
        let faulty = FaultyFiles(base, trial.fault, at: call)
        files.withLock { $0 = faulty }
        return faulty
      }
      for group in script.groups {
        let counters = try await storage.counters()
        do {
          try await storage.apply(group, expecting: counters, nextId: script.nextId)
        } catch let error as PerdureError {
          #expect([.storageFailed, .storeUnwritable].contains(error.code), about)
          tried = group.count
          #expect(await code { _ = try await storage.counters() } == error.code, about)
          let again = await code {
            try await storage.apply([], expecting: counters, nextId: script.nextId)
          }
          #expect(again == error.code, about)
          break
        }
        confirmed += group.count
      }
      await storage.close()
    } catch let error as PerdureError {
      // It could not be opened.
      #expect(error.hint != nil, about)
    }
    try await check(path, script, confirmed: confirmed, tried: tried, about)
    return files.withLock { $0?.hasFailed ?? false }
  }

  private func check(
    _ path: String,
    _ script: FaultScript,
    confirmed: Int,
    tried: Int,
    _ about: Comment
  ) async throws {
    let reader = try await JSONLStorage.open(path: path, readOnly: true)
    let seen = try await dump(reader, script.last)
    await reader.close()
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    let kept = Int(try await storage.counters().nextSequence) - 1
    #expect((confirmed...confirmed + tried).contains(kept), about)
    #expect(try await dump(storage, script.last) == script.contents[kept], about)
    #expect(seen == script.contents[kept], about)
    for batch in script.groups.joined().dropFirst(kept) {
      let counters = try await storage.counters()
      try await storage.apply([batch], expecting: counters, nextId: script.nextId)
    }
    #expect(try await dump(storage, script.last) == script.contents.last, about)
    await storage.close()
  }
}
