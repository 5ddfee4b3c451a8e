import PerdureModel
import PerdureValue

/// How to take a batch back when a later one of its group is refused.
private struct Undo {
  var effects: BatchEffects
  var tasks: [TaskRecord?] = []
  var submissions: [SubmissionRecord?] = []
  var documents: [MemoryState.Document?] = []
  var removed: [MemoryState.Record] = []
  var extras: [(MemoryState.ExtraKey, JSON?)] = []
}

/// A group that may be applied to the state that judged it.
struct PreparedGroup {
  /// What each batch does.
  var effects: [BatchEffects]
  /// The counters behind the group.
  var counters: StoreCounters
}

extension MemoryState {
  /// Applies a group, or changes nothing and throws.
  mutating func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) throws {
    let after = try counters.advanced(by: group, expecting: expected, nextId: nextId)
    _ = try applyAll(group, nextId: nextId)
    counters = after
  }

  /// Judges a group as `apply` does, and leaves everything as it was.
  mutating func prepare(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) throws -> PreparedGroup {
    let after = try counters.advanced(by: group, expecting: expected, nextId: nextId)
    let applied = try applyAll(group, nextId: nextId)
    for undo in applied.reversed() { revert(undo) }
    return PreparedGroup(effects: applied.map { $0.effects }, counters: after)
  }

  /// Applies a group that this state has judged, and that is now on disk.
  mutating func adopt(_ prepared: PreparedGroup, _ group: [Batch]) {
    for (effects, batch) in zip(prepared.effects, group) { _ = apply(effects, batch) }
    counters = prepared.counters
  }

  /// Applies a batch that was on disk; sequence numbers may be left out.
  mutating func replay(_ batch: Batch) throws {
    let effects = try BatchEffects(batch, facts(BatchNeeds(batch)))
    _ = apply(effects, batch)
    counters.nextSequence = batch.sequence + 1
    counters.nextId = max(counters.nextId, effects.nextId)
  }

  private mutating func applyAll(_ group: [Batch], nextId: Int64) throws -> [Undo] {
    var applied: [Undo] = []
    do {
      for batch in group {
        let effects = try BatchEffects(batch, facts(BatchNeeds(batch)))
        try effects.requireIds(below: nextId)
        applied.append(apply(effects, batch))
      }
    } catch {
      for undo in applied.reversed() { revert(undo) }
      throw error
    }
    return applied
  }

  private mutating func apply(_ effects: BatchEffects, _ batch: Batch) -> Undo {
    var undo = Undo(effects: effects)
    for removal in effects.removals {
      if let record = remove(removal.reference) { undo.removed.append(record) }
    }
    for record in effects.conversations { add(record) }
    for record in effects.entries { add(record, at: batch.sequence) }
    for record in effects.tasks {
      undo.tasks.append(tasks[record.id])
      set(record.id, record)
    }
    for record in effects.submissions {
      undo.submissions.append(submissions[record.id])
      set(record.id, record)
    }
    for effect in effects.documents {
      undo.documents.append(documents[effect.record.id])
    }
    // Retirements first, so that the address is free for a successor of the same batch.
    for effect in effects.documents where effect.isRetired { apply(effect, batch.sequence) }
    for effect in effects.documents where !effect.isRetired { apply(effect, batch.sequence) }
    for extra in batch.extras {
      let key = ExtraKey(scope: extra.scope, id: extra.id)
      undo.extras.append((key, extras[key]))
      extras[key] = extra.value
    }
    return undo
  }

  private mutating func apply(_ effect: DocumentEffect, _ sequence: Int64) {
    var revisions = documents[effect.record.id]?.revisions ?? []
    switch effect.revisions {
    case .untouched: break
    case .appended(let content):
      revisions.append(Revision(sequence: sequence, content: content))
    case .replaced(let content): revisions = [Revision(sequence: sequence, content: content)]
    case .cleared: revisions = []
    }
    set(effect.record.id, Document(record: effect.record, revisions: revisions))
  }

  private mutating func revert(_ undo: Undo) {
    for (key, value) in undo.extras.reversed() { extras[key] = value }
    // New incarnations first, for the same reason as above.
    for (effect, old) in zip(undo.effects.documents, undo.documents) where old == nil {
      set(effect.record.id, nil as Document?)
    }
    for (effect, old) in zip(undo.effects.documents, undo.documents) where old != nil {
      set(effect.record.id, old)
    }
    for (record, old) in zip(undo.effects.submissions, undo.submissions) { set(record.id, old) }
    for (record, old) in zip(undo.effects.tasks, undo.tasks) { set(record.id, old) }
    for record in undo.effects.entries { remove(record) }
    for record in undo.effects.conversations { remove(record) }
    for record in undo.removed.reversed() { restore(record) }
  }

  func facts(_ needs: BatchNeeds) -> BatchFacts {
    var facts = BatchFacts()
    for id in needs.ids { facts.types[id] = types[id] }
    for id in needs.documents {
      facts.documents[id] = documents[id].map {
        DocumentHead(record: $0.record, version: $0.revisions.last?.content.version)
      }
    }
    for address in needs.addresses { facts.current[address] = current[address] }
    for source in needs.sources {
      facts.sources[source] = try? document(source.id, at: source.at)
    }
    return facts
  }
}
