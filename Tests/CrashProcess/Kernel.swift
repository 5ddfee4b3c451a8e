import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// Random commits of everything that the kernel stores, the same for the same seed.
///
/// Each step is one commit, which also counts it in a document, and is made of the seed and of what
/// the store holds. So a store that died can go on, and must end as if it had lived.
struct Kernel {
  static let count = 28

  let seed: UInt64
  /// Told after each group of steps how many are on disk.
  let confirm: @Sendable (Int) -> Void

  /// Plays to the end and returns what the store then holds.
  func play(on storage: any Storage) async throws -> JSONObject {
    let session = try await Session.open(storage, clock: StandingClock())
    do {
      try await playOn(session)
      // The look at the end is not what is played.
      let base = (storage as? any ForwardingStorage)?.base ?? storage
      let dump = Self.plain(try await StoreDump(base).json())
      let violations = try await StoreInvariants.violations(of: base)
      try await session.close()
      return [
        "dump": .object(dump), "violations": .array(violations.map { .string($0) }),
      ]
    } catch {
      try? await session.close()
      throw error
    }
  }

  private func playOn(_ session: Session) async throws {
    var step = Self.steps(try await session.snapshot(KernelStep.progress, in: .session))
    while step < Self.count {
      var random = SeededGenerator(seed: seed &+ UInt64(step))
      for _ in 0..<min(random.int(1...3), Self.count - step) {
        var current = KernelStep(number: step, seed: seed)
        // Ids that a death takes back would be minted twice in one run and once in another.
        if current.mintsEarly { try await session.barrier() }
        let mayWasteIds = try await session.stage { try await current.write(to: $0) }.result
        step += 1
        // The ids that a commit minted in vain are known only with the last commit of a group.
        if mayWasteIds { break }
      }
      try await session.barrier()
      confirm(step)
    }
  }

  /// How many steps a store has behind it, by the value of the document that counts them.
  private static func steps(_ value: JSON?) -> Int { Int(value?["steps"]?.int ?? 0) }

  /// How many steps a store has behind it.
  static func steps(in dump: JSONObject) -> Int {
    let documents = dump["documents"]?.array ?? []
    return steps(documents.first { $0["record"]?["kind"] == "k.progress" }?["value"])
  }

  /// A dump without the random ids of sessions at providers.
  static func plain(_ dump: JSONObject) -> JSONObject {
    var dump = dump
    dump["violations"] = nil
    dump["documents"] = .array(
      (dump["documents"]?.array ?? []).map { row in
        guard row["record"]?["kind"] == "pi.provider", var object = row.object else { return row }
        object["value"] = nil
        return .object(object)
      }
    )
    return dump
  }
}

/// A clock that stands still, so that times are the same in every run.
struct StandingClock: HostClock {
  func now() -> Int64 { 1_800_000_000_000 }
  func monotonic() -> Int64 { 1_000_000_000 }
  func sleep(nanoseconds: Int64) async {}
}
