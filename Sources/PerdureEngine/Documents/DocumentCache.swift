import PerdureModel
import PerdureValue
import Synchronization

/// The documents that have been looked at lately: each as staged and as flushed.
///
/// Inside the engine the staged revision counts; whoever looks from outside gets the flushed one.
/// Entries are added and changed on the Session line; a flush moves the flushed revision.
final class DocumentCache: Sendable {
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
    var lastUse: UInt64 = 0

    var newest: Revision? { staged.last.map { $0.revision } ?? flushed }
  }

  private struct State {
    var entries: [DocumentAddress: Entry] = [:]
    var uses: UInt64 = 0
  }

  // Keeps the documents of some 400 busy conversations; idle ones are loaded again on demand.
  private static let capacity = 2_048

  private let state = Mutex(State())

  /// The cached entry, or `nil` if the address was not looked up yet.
  func entry(_ address: DocumentAddress) -> Entry? {
    state.withLock { state in
      guard state.entries[address] != nil else { return nil }
      state.uses += 1
      state.entries[address]?.lastUse = state.uses
      return state.entries[address]
    }
  }

  /// Remembers what storage holds at an address, unless a commit was quicker.
  func load(_ address: DocumentAddress, _ revision: Revision?) {
    state.withLock { state in
      guard state.entries[address] == nil else { return }
      state.uses += 1
      state.entries[address] = Entry(flushed: revision, lastUse: state.uses)
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
    state.withLock { state in
      state.uses += 1
      var entry = state.entries[address] ?? Entry(flushed: base)
      entry.staged.append((sequence, revision))
      entry.lastUse = state.uses
      state.entries[address] = entry
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
        guard var entry = state.entries[address] else { continue }
        while let first = entry.staged.first, first.sequence <= sequence {
          entry.flushed = first.revision
          entry.staged.removeFirst()
        }
        state.entries[address] = entry
      }
      Self.evict(&state)
    }
  }

  private static func evict(_ state: inout State) {
    guard state.entries.count > capacity else { return }
    let idle = state.entries.filter { $0.value.staged.isEmpty }
    // More than is needed, so that the next eviction is some time away.
    let surplus = state.entries.count - capacity * 3 / 4
    let oldest = idle.sorted { $0.value.lastUse < $1.value.lastUse }.prefix(surplus)
    for (address, _) in oldest { state.entries[address] = nil }
  }
}
