package import PerdureModel
import PerdureValue

/// What a store in memory held at one moment.
package final class MemorySnapshot: InMemoryReads, StoreSnapshot {
  private let state: MemoryState
  private let entryIds: SortedIds
  private let documentIds: SortedIds
  private let extras: [StorePlace]

  /// Keeps a state; nothing is copied until the store changes.
  init(_ state: MemoryState) {
    self.state = state
    entryIds = SortedIds(ascending: state.entries.keys.map { $0.value }.sorted())
    documentIds = SortedIds(ascending: state.documents.keys.map { $0.value }.sorted())
    extras = state.extras.keys.map { StorePlace(.extra, scope: $0.scope, id: $0.id) }.sorted()
  }

  package func read<Value>(_ body: (MemoryState) throws -> sending Value) throws -> sending Value {
    try body(state)
  }

  package func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    throw PerdureError(.storeUnwritable, "a snapshot of a store cannot be written")
  }

  package func close() async {}

  package func parts(
    _ section: StoreSection,
    after: StorePlace?,
    limit: Int
  ) async throws -> [StorePart] {
    func scan(_ ids: SortedIds, _ part: (Int64) -> StorePart?) -> [StorePart] {
      ids.scan(.ascending, after: after?.id, limit: limit, part)
    }
    switch section {
    case .conversation:
      return scan(state.conversationIds) { id in
        ConversationID(id).flatMap { state.conversations[$0] }.map { .conversation($0) }
      }
    case .entry:
      return scan(entryIds) { id in EntryID(id).flatMap { state.entries[$0] }.map { .entry($0) } }
    case .task:
      return scan(state.taskIds) { id in
        TaskID(id).flatMap { state.tasks[$0] }.map { .task($0) }
      }
    case .submission:
      return scan(state.submissionIds) { id in
        SubmissionID(id).flatMap { state.submissions[$0] }.map { .submission($0) }
      }
    case .document:
      return scan(documentIds) { id in
        DocumentID(id).flatMap { state.documents[$0]?.record }.map { .document($0) }
      }
    case .revision: return revisions(after: after, limit: limit)
    case .extra: return facts(after: after, limit: limit)
    }
  }

  private func revisions(after: StorePlace?, limit: Int) -> [StorePart] {
    var parts: [StorePart] = []
    // A document of which some were given is visited again.
    let start = after.map { $0.id - 1 }
    _ = documentIds.scan(.ascending, after: start, limit: 1) { id -> Bool? in
      guard let id = DocumentID(id), let document = state.documents[id] else { return nil }
      for revision in document.revisions {
        let place = StorePlace(.revision, id: id.value, sequence: revision.sequence)
        if let after, place <= after { continue }
        parts.append(.revision(id, sequence: revision.sequence, revision.content))
        if parts.count == limit { return true }
      }
      return nil
    }
    return parts
  }

  private func facts(after: StorePlace?, limit: Int) -> [StorePart] {
    var low = 0
    var high = after == nil ? 0 : extras.count
    while let after, low < high {
      let middle = (low + high) / 2
      if extras[middle] <= after { low = middle + 1 } else { high = middle }
    }
    return extras[low...].prefix(limit).compactMap { place in
      state.extras[MemoryState.ExtraKey(scope: place.scope, id: place.id)].map {
        .extra(scope: place.scope, id: place.id, value: $0)
      }
    }
  }
}

extension MemoryStorage {
  /// Returns what the store holds now.
  package func snapshot() throws -> MemorySnapshot { MemorySnapshot(try read { $0 }) }
}

extension JSONLStorage {
  /// Opens what the store in the folder at `path` holds at this moment, as reading it does.
  package static func openSnapshot(path: String) async throws -> MemorySnapshot {
    let storage = try await open(path: path, readOnly: true)
    let snapshot = MemorySnapshot(try storage.read { $0 })
    await storage.close()
    return snapshot
  }
}
