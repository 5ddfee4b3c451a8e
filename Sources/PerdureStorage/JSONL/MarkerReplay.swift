import PerdureModel
import PerdureValue

/// Builds the state of a store from its markers and sidecars.
///
/// Records that reclamation may have removed are not needed: those of tasks that have ended, those
/// of retired documents that keep only their newest value, and those before the newest base of
/// such a document.
struct MarkerReplay {
  /// How much of a sidecar is needed.
  enum Need {
    case nothing
    case all
    case from(SidecarFile.Position)
  }

  private let markers: [Marker]
  private(set) var sidecars: [Sidecar: SidecarFile]
  private let errors: JSONLErrors
  /// Where damage is remembered; without it damage is thrown.
  private let passedOver: PassedOver?

  private var currentOnly: Set<DocumentID> = []
  private var known: Set<Sidecar> = []
  /// The last commit that made the records before it unnecessary.
  private var endings: [Sidecar: Int64] = [:]
  private var living: Set<TaskID> = []
  private var newestBases: [DocumentID: SidecarFile.Position] = [:]
  /// What keeps other programs from using the ids of removed records again.
  private var placeholders: [Int64] = []

  init(
    markers: [Marker],
    sidecars: [Sidecar: SidecarFile],
    errors: JSONLErrors,
    passedOver: PassedOver?
  ) {
    self.markers = markers
    self.sidecars = sidecars
    self.errors = errors
    self.passedOver = passedOver
  }

  mutating func run() throws -> MemoryState {
    for marker in markers { survey(marker) }
    var state = MemoryState()
    for marker in markers {
      do {
        try replay(marker, &state)
      } catch {
        guard let passedOver else { throw error }
        try passedOver.add(error)
      }
    }
    for id in placeholders { state.remove(id) }
    return state
  }

  private mutating func replay(_ marker: Marker, _ state: inout MemoryState) throws {
    do {
      let batch = Batch(sequence: marker.sequence, writes: try writes(of: marker), at: 0)
      try state.replay(batch)
    } catch {
      throw placed(error, marker)
    }
  }

  /// The error with the line of the commit, unless it has a place already.
  private func placed(_ error: any Error, _ marker: Marker) -> any Error {
    guard let error = error as? PerdureError, error.details == nil else { return error }
    return errors.corrupt(JSONLNames.main, line: marker.line, JSONLErrors.cause(error))
  }

  func needs(_ sidecar: Sidecar) -> Need {
    // The first commit of its record was cut off.
    guard known.contains(sidecar) else { return .nothing }
    switch sidecar {
    case .task(let id): return living.contains(id) ? .all : .nothing
    case .document: if endings[sidecar] != nil { return .nothing }
    }
    if case .document(let id) = sidecar, let base = newestBases[id] { return .from(base) }
    return .all
  }

  // MARK: What is needed

  private mutating func survey(_ marker: Marker) {
    for write in marker.writes {
      switch write {
      case .conversation, .entry, .submission: break
      case .task(let record):
        endings[.task(record.id)] = marker.sequence
        living.remove(record.id)
      case .taskSidecar(let id, _):
        known.insert(.task(id))
        living.insert(id)
      case .createDocument(let record, let ordinal):
        known.insert(.document(record.id))
        if record.isCurrentOnly { currentOnly.insert(record.id) }
        if Placeholder.matches(record) { placeholders.append(record.id.value) }
        noteBase(of: record.id, marker.sequence, ordinal)
      case .changeDocument(let id, let ordinal): noteBase(of: id, marker.sequence, ordinal)
      case .retireDocument(let id):
        if currentOnly.contains(id) { endings[.document(id)] = marker.sequence }
      }
    }
  }

  private mutating func noteBase(of id: DocumentID, _ sequence: Int64, _ ordinal: Int64) {
    let position = SidecarFile.Position(sequence: sequence, ordinal: ordinal)
    guard currentOnly.contains(id),
      case .document(_, .base)? = sidecars[.document(id)]?.record(at: position)?.payload
    else { return }
    newestBases[id] = max(newestBases[id] ?? position, position)
  }

  // MARK: Commits

  private mutating func writes(of marker: Marker) throws -> [StorageWrite] {
    var writes: [StorageWrite] = []
    for write in marker.writes {
      do {
        if let write = try storageWrite(write, marker) { writes.append(write) }
      } catch {
        guard let passedOver else { throw error }
        try passedOver.add(placed(error, marker), about: write.sidecar)
      }
    }
    guard let broken = passedOver?.documents else { return writes }
    return writes.filter { write in write.document.map { !broken.contains($0) } ?? true }
  }

  private mutating func storageWrite(
    _ write: Marker.Write,
    _ marker: Marker
  ) throws -> StorageWrite? {
    switch write {
    case .conversation(let record): .conversation(record)
    case .entry(let record): .entry(record)
    case .submission(let record): .submission(record)
    case .task(let record): .task(record)
    case .retireDocument(let id): .retireDocument(id)
    case .taskSidecar(let id, let ordinal):
      try task(id, marker, ordinal).map { .task($0) }
    case .createDocument(let record, let ordinal): try creation(of: record, marker, ordinal)
    case .changeDocument(let id, let ordinal):
      try content(of: id, marker, ordinal).map { .changeDocument(id, $0) }
    }
  }

  private mutating func task(
    _ id: TaskID,
    _ marker: Marker,
    _ ordinal: Int64
  ) throws -> TaskRecord? {
    let isNeeded = marker.sequence > endings[.task(id)] ?? 0
    let record = try confirm(.task(id), marker, ordinal, isNeeded: isNeeded)
    guard isNeeded, case .task(let task)? = record?.payload else { return nil }
    return task
  }

  private mutating func content(
    of id: DocumentID,
    _ marker: Marker,
    _ ordinal: Int64
  ) throws -> DocumentContent? {
    let position = SidecarFile.Position(sequence: marker.sequence, ordinal: ordinal)
    let isReplaced = newestBases[id].map { position < $0 } ?? false
    let isNeeded = !isReplaced && endings[.document(id)] == nil
    let record = try confirm(.document(id), marker, ordinal, isNeeded: isNeeded)
    guard isNeeded, case .document(_, let content)? = record?.payload else { return nil }
    return content
  }

  private mutating func creation(
    of record: DocumentRecord,
    _ marker: Marker,
    _ ordinal: Int64
  ) throws -> StorageWrite {
    switch try content(of: record.id, marker, ordinal) {
    case .base(let version, let value)?:
      return .createDocument(record, version: version, value: value)
    case .delta?:
      throw PerdureError(.storeCorrupt, "document \(record.id) is created without a base")
    // A later base, or nothing at all, is what is read of it.
    case nil: return .createDocument(record, version: 1, value: [:])
    }
  }

  private mutating func confirm(
    _ sidecar: Sidecar,
    _ marker: Marker,
    _ ordinal: Int64,
    isNeeded: Bool
  ) throws -> SidecarRecord? {
    let position = SidecarFile.Position(sequence: marker.sequence, ordinal: ordinal)
    guard let record = sidecars[sidecar]?.record(at: position) else {
      guard isNeeded else { return nil }
      throw errors.corrupt(
        sidecar.name,
        "the record \(ordinal) of the commit \(marker.sequence) is missing"
      )
    }
    guard sidecars[sidecar]?.confirm(position) == true else {
      throw PerdureError(
        .storeCorrupt,
        "the record \(ordinal) of \(sidecar.name) is named twice"
      )
    }
    return record
  }
}

extension Marker.Write {
  /// The file that holds the other part of the write.
  fileprivate var sidecar: Sidecar? {
    switch self {
    case .conversation, .entry, .submission, .task: nil
    case .taskSidecar(let id, _): .task(id)
    case .createDocument(let record, _): .document(record.id)
    case .changeDocument(let id, _), .retireDocument(let id): .document(id)
    }
  }
}

extension StorageWrite {
  /// The document that it is about.
  fileprivate var document: DocumentID? {
    switch self {
    case .conversation, .entry, .task, .submission, .remove: nil
    case .createDocument(let record, _, _), .copyDocument(let record, _, _): record.id
    case .changeDocument(let id, _), .retireDocument(let id): id
    }
  }
}
