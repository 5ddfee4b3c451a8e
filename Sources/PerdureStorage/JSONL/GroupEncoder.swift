import PerdureModel
import PerdureValue

/// The bytes of a group of commits, and what they make unnecessary.
struct GroupEncoder {
  /// What is added to a sidecar.
  struct Addition {
    var bytes: [UInt8] = []
    /// Where in `bytes` the newest base begins, if nothing before it is needed.
    var newBase: Int?
  }

  /// The sidecars that grow, in the order in which they were first touched.
  private(set) var touched: [Sidecar] = []
  private(set) var additions: [Sidecar: Addition] = [:]
  /// The sidecars that nobody needs after the group.
  private(set) var finished: Set<Sidecar> = []
  private(set) var extras: [UInt8] = []
  private(set) var markers: [UInt8] = []

  private var sequence: Int64 = 0
  private var ordinal: Int64 = 0

  /// Adds a commit; `nextId` is given where the records do not tell it.
  mutating func add(_ batch: Batch, _ effects: BatchEffects, nextId: Int64?) {
    (sequence, ordinal) = (batch.sequence, 0)
    var writes: [Marker.Write] = effects.conversations.map { .conversation($0) }
    writes += effects.entries.map { .entry($0) }
    writes += effects.submissions.map { .submission($0) }
    writes += effects.tasks.map { write(of: $0) }
    for effect in effects.documents { writes += self.writes(of: effect) }
    writes += effects.removals.compactMap { retirement(by: $0) }
    let marker = Marker(sequence: batch.sequence, writes: writes).json.encoded
    markers += marker
    markers.append(UInt8(ascii: "\n"))
    let removed = effects.removals.map { $0.reference.id }
    guard !batch.extras.isEmpty || !removed.isEmpty || nextId != nil else { return }
    let commit = (batch.sequence, ExtrasRecord.digest(marker))
    add(ExtrasRecord(commit: commit, nextId: nextId, writes: batch.extras, removed: removed))
  }

  /// For those who know no removal, a living document at least retires: its address is free.
  private mutating func retirement(by removal: Removal) -> Marker.Write? {
    guard let record = removal.document else { return nil }
    // History stays beside the markers that name it, until those are rewritten.
    if record.isCurrentOnly { finished.insert(.document(record.id)) }
    return record.retiredAt == nil ? .retireDocument(record.id) : nil
  }

  /// Adds a line of `perdure.jsonl`.
  mutating func add(_ record: ExtrasRecord) {
    extras += record.json.encoded
    extras.append(UInt8(ascii: "\n"))
  }

  private mutating func write(of task: TaskRecord) -> Marker.Write {
    let sidecar = Sidecar.task(task.id)
    guard task.isLive else {
      finished.insert(sidecar)
      return .task(task)
    }
    finished.remove(sidecar)
    return .taskSidecar(task.id, ordinal: add(.task(task), to: sidecar))
  }

  private mutating func writes(of effect: DocumentEffect) -> [Marker.Write] {
    let id = effect.record.id
    let sidecar = Sidecar.document(id)
    var writes: [Marker.Write] = []
    if let content = effect.content, effect.isNew || effect.revisions != .cleared {
      if !effect.isNew, case .replaced = effect.revisions { startAnew(sidecar) }
      let ordinal = add(.document(id, content), to: sidecar)
      writes.append(
        effect.isNew
          ? .createDocument(effect.record, ordinal: ordinal)
          : .changeDocument(id, ordinal: ordinal)
      )
    }
    if effect.isRetired {
      writes.append(.retireDocument(id))
      if effect.record.isCurrentOnly { finished.insert(sidecar) }
    }
    return writes
  }

  private mutating func startAnew(_ sidecar: Sidecar) {
    additions[sidecar, default: Addition()].newBase = additions[sidecar]?.bytes.count ?? 0
  }

  private mutating func add(_ payload: SidecarRecord.Payload, to sidecar: Sidecar) -> Int64 {
    let record = SidecarRecord(sequence: sequence, ordinal: ordinal, payload: payload)
    if additions[sidecar]?.bytes.isEmpty ?? true { touched.append(sidecar) }
    additions[sidecar, default: Addition()].bytes += record.json.encoded
    additions[sidecar, default: Addition()].bytes.append(UInt8(ascii: "\n"))
    ordinal += 1
    return record.ordinal
  }
}
