import PerdureModel
import PerdureValue
import Synchronization

/// The documents that have been looked at lately: each as staged and as flushed.
///
/// Inside the engine the staged revision counts; whoever looks from outside gets the flushed one.
/// Entries are added and changed on the Session line; a flush moves the flushed revision. An entry
/// that nobody observes is dropped some time after its last use, and earlier if there are many.
final class DocumentCache: Retaining {
  struct Revision: Sendable {
    var record: DocumentRecord
    var version: Int64
    var value: JSON
    var deltasSinceBase: Int
  }

  struct Entry: Sendable {
    var flushed: Revision?
    /// Revisions that are not on disk yet, oldest first; `nil` stands for a retired document.
    var staged: [(sequence: Int64, revision: Revision?)] = []
    /// The order of the last uses of all entries.
    fileprivate var use: UInt64 = 0
    /// The time of the last use.
    fileprivate var lastUse: Int64 = 0

    var newest: Revision? { staged.last.map { $0.revision } ?? flushed }

    mutating func flush(through sequence: Int64) {
      while let first = staged.first, first.sequence <= sequence {
        flushed = first.revision
        staged.removeFirst()
      }
    }
  }

  private struct State {
    var entries: [DocumentAddress: Entry] = [:]
    var uses: UInt64 = 0
    /// How many observe the document at an address.
    var pins: [DocumentAddress: Int] = [:]

    /// Notes a use of the entry at a place; looking an address up costs more than the rest.
    mutating func touch(_ place: Dictionary<DocumentAddress, Entry>.Index, at now: Int64) {
      uses += 1
      entries.values[place].use = uses
      entries.values[place].lastUse = now
    }

    mutating func add(_ entry: Entry, _ address: DocumentAddress, at now: Int64) {
      var entry = entry
      uses += 1
      entry.use = uses
      entry.lastUse = now
      entries[address] = entry
    }

    func mayDrop(_ address: DocumentAddress, _ entry: Entry) -> Bool {
      entry.staged.isEmpty && pins[address] == nil
    }
  }

  // Keeps the documents of some 400 busy conversations; idle ones are loaded again on demand.
  private static let capacity = 2_048

  private let clock: any HostClock
  private let retention: @Sendable () -> Retention
  private let state = Mutex(State())

  init(clock: any HostClock, retention: @escaping @Sendable () -> Retention) {
    self.clock = clock
    self.retention = retention
  }

  /// How many addresses are cached.
  var count: Int { state.withLock { $0.entries.count } }

  /// The cached entry, or `nil` if the address was not looked up yet.
  func entry(_ address: DocumentAddress) -> Entry? {
    let now = clock.monotonic()
    return state.withLock { state in
      guard let place = state.entries.index(forKey: address) else { return nil }
      state.touch(place, at: now)
      return state.entries.values[place]
    }
  }

  /// Remembers what storage holds at an address, unless a commit was quicker.
  func load(_ address: DocumentAddress, _ revision: Revision?) {
    let now = clock.monotonic()
    state.withLock { state in
      guard state.entries[address] == nil else { return }
      state.add(Entry(flushed: revision), address, at: now)
      Self.evict(&state)
    }
  }

  /// Adds a revision that follows `base`, which is what lies on disk if the entry is gone.
  func stage(
    _ address: DocumentAddress,
    _ revision: Revision?,
    after base: Revision?,
    at sequence: Int64
  ) {
    let now = clock.monotonic()
    state.withLock { state in
      if let place = state.entries.index(forKey: address) {
        state.entries.values[place].staged.append((sequence, revision))
        state.touch(place, at: now)
      } else {
        state.add(Entry(flushed: base, staged: [(sequence, revision)]), address, at: now)
      }
    }
  }

  /// Notes that the document is gone after this commit.
  ///
  /// Without an entry and without `base` nothing is noted: storage knows, once it is flushed.
  func retire(_ address: DocumentAddress, after base: Revision?, at sequence: Int64) {
    let isKnown = base != nil || state.withLock { $0.entries[address] != nil }
    if isKnown { stage(address, nil, after: base, at: sequence) }
  }

  func flushed(through sequence: Int64, _ addresses: some Sequence<DocumentAddress>) {
    state.withLock { state in
      for address in addresses {
        guard let place = state.entries.index(forKey: address) else { continue }
        state.entries.values[place].flush(through: sequence)
      }
      Self.evict(&state)
    }
  }

  /// Keeps the entry of an address, for somebody who observes it.
  func pin(_ address: DocumentAddress) { state.withLock { $0.pins[address, default: 0] += 1 } }

  func unpin(_ address: DocumentAddress) {
    state.withLock { state in
      let count = (state.pins[address] ?? 1) - 1
      state.pins[address] = count > 0 ? count : nil
    }
  }

  private static func evict(_ state: inout State) {
    guard state.entries.count > capacity else { return }
    let idle = state.entries.filter { state.mayDrop($0.key, $0.value) }
    // More than is needed, so that the next eviction is some time away.
    let surplus = state.entries.count - capacity * 3 / 4
    let oldest = idle.sorted { $0.value.use < $1.value.use }.prefix(surplus)
    for (address, _) in oldest { state.entries[address] = nil }
  }

  // MARK: Retention

  var nextExpiry: Int64? {
    let retention = retention()
    guard retention.span != nil else { return nil }
    let oldest = state.withLock { state in
      var oldest: Int64?
      for (address, entry) in state.entries where state.mayDrop(address, entry) {
        oldest = min(oldest ?? .max, entry.lastUse)
      }
      return oldest
    }
    return oldest.flatMap { retention.end(of: $0) }?.addingSaturated(retention.grain)
  }

  func expire(at now: Int64) {
    let retention = retention()
    guard retention.span != nil else { return }
    state.withLock { state in
      for (address, entry) in state.entries where state.mayDrop(address, entry) {
        if let end = retention.end(of: entry.lastUse), end <= now { state.entries[address] = nil }
      }
    }
  }

  /// Forgets everything.
  func clear() { state.withLock { $0.entries = [:] } }
}
