import PerdureModel
import PerdureValue

/// Random groups, valid and not, for several backends at once.
struct RandomGroups {
  var state: UInt64
  var counters = StoreCounters()
  /// What was removed, or would have been, and must not be written again.
  private var removed: Set<Int64> = []

  init(state: UInt64) { self.state = state }

  /// SplitMix64.
  mutating func next(_ bound: Int64) -> Int64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return Int64((value ^ (value >> 31)) % UInt64(bound))
  }

  mutating func group() -> [Batch] {
    (0...next(3)).map { offset in
      Batch(
        sequence: counters.nextSequence + offset,
        writes: (0...next(3)).map { _ in write() },
        extras: next(2) == 0 ? [ExtraWrite(scope: "s", id: next(3), value: .int(next(9)))] : [],
        at: 0
      )
    }
  }

  private mutating func write() -> StorageWrite {
    if next(40) == 0 { return removal() }
    while true {
      let write = change()
      if write.subject.map({ removed.contains($0) }) != true { return write }
    }
  }

  private mutating func removal() -> StorageWrite {
    let (type, id): (RecordType, Int64) =
      switch next(4) {
      case 0: (.task, 200 + next(4))
      case 1: (.entry, 10 + next(12) + next(counters.nextSequence + 1))
      case 2: (.document, 320 + next(12))
      default: (.document, 300 + next(12))
      }
    removed.insert(id)
    return .remove(RecordReference(type, id))
  }

  private mutating func change() -> StorageWrite {
    // Few ids, so that records meet; each kind mostly keeps to its own.
    let value = next(12)
    switch next(9) {
    case 0: return entry(10 + value + counters.nextSequence)
    case 1: return task(200 + value % 4, .running(checkpoint: .int(next(9))))
    case 2: return task(200 + value % 4, .terminal(.completed(result: .int(next(9)))))
    case 3, 4:
      return .createDocument(record(300 + value), version: 1, value: ["n": .int(next(9))])
    case 5:
      return .copyDocument(
        record(320 + value),
        source: known(300 + next(12)),
        at: next(2) == 0 ? nil : max(counters.nextSequence - next(4), 1)
      )
    case 6:
      let operations: [PerdureValue.Operation] = [.set(["n"], .int(next(9)))]
      return .changeDocument(known(300 + value), .delta(version: 1, operations: operations))
    case 7: return .changeDocument(known(300 + value), .base(version: 1, value: ["n": 0]))
    default: return .retireDocument(known(300 + value))
    }
  }

  private mutating func record(_ id: Int64) -> DocumentRecord {
    let isRewindable = id % 2 == 0
    return DocumentRecord(
      id: known(id),
      address: DocumentAddress(
        kind: isRewindable ? "even" : "odd",
        scope: .conversation(known(1 + id % 3)),
        key: id < 320 ? nil : "copy"
      ),
      history: isRewindable ? .rewindable : .latest,
      fork: .current,
      createdAt: 0
    )
  }
}

/// All that can be read of the records that `RandomGroups` may have written before the commit `last`.
func dump(_ storage: any Storage, _ last: Int64) async throws -> [String] {
  var lines: [String] = []
  for id in Int64(200)..<204 {
    lines.append("\(String(describing: try await storage.task(known(id))))")
  }
  for status in TaskState.Status.allCases {
    let page = try await storage.scanTasks(TaskQuery(status: status), PageRequest(limit: 99))
    lines.append("\(status) \(page.items.map { $0.id })")
  }
  for id in Int64(0)..<3 {
    lines.append("\(String(describing: try await storage.extra(scope: "s", id: id)))")
  }
  for id in Int64(300)..<332 {
    let document = try await storage.document(known(id), at: nil)
    lines.append(
      "\(id) \(document?.record.json.compactText ?? "") \(document?.value.compactText ?? "")"
    )
    guard id % 2 == 0 else { continue }
    for sequence in 1..<last {
      let value = try await storage.document(known(id), at: sequence)?.value.compactText
      lines.append("\(id)@\(sequence) \(value ?? "")")
    }
  }
  for conversation in Int64(1)..<4 {
    for at in [nil, last / 2, last - 1] {
      let query = DocumentQuery(scope: .conversation(known(conversation)), at: at)
      let page = try await storage.scanDocuments(query, PageRequest(limit: 99))
      lines.append("\(conversation) \(page.items.map { $0.id })")
    }
  }
  return lines
}

extension StorageWrite {
  /// The record that the write creates or changes.
  fileprivate var subject: Int64? {
    switch self {
    case .conversation(let record): record.id.value
    case .entry(let record): record.id.value
    case .task(let record): record.id.value
    case .submission(let record): record.id.value
    case .createDocument(let record, _, _), .copyDocument(let record, _, _): record.id.value
    case .changeDocument(let id, _), .retireDocument(let id): id.value
    case .remove: nil
    }
  }
}
