import PerdureModel
import PerdureValue
import Synchronization

/// The main file and the extras, written anew.
///
/// Two files take the place of two others, one after the other, and the store must be whole at any
/// moment. So the extras come first, in a form that counts without the markers that it was confirmed
/// by and still names every removed record; then the main file, which names none of them; then the
/// extras without the list. All of it waits for the disk, whatever the store does otherwise.
extension JSONLJournal {
  /// Rewrites both files to what is still needed.
  func compact() throws {
    try state.check()
    try checkInPlace()
    guard files.exclude() else { throw errors.busy }
    defer { files.release() }
    reclaimAll()
    let state = state.memory.withLock { $0 }
    let removed = try writeReplacements(state)
    do {
      try put(JSONLNames.extras)
      try put(JSONLNames.main)
      try adoptMain()
    } catch {
      let error = errors.failing(error, JSONLNames.main)
      self.state.failure.withLock { $0 = error }
      throw error
    }
    dropSidecars { isKept($0, state) }
    guard !removed.isEmpty else { return }
    // The list says nothing any more; the next compaction tries again.
    do {
      try write(state, removed: [])
      try put(JSONLNames.extras)
    } catch { try? files.remove(JSONLNames.extras + JSONLNames.replacement) }
  }

  private func isKept(_ sidecar: Sidecar, _ state: MemoryState) -> Bool {
    switch sidecar {
    case .task(let id): state.tasks[id] != nil
    case .document(let id): state.documents[id] != nil
    }
  }

  /// Writes both files beside the old ones, and returns the ids of removed records.
  private func writeReplacements(_ state: MemoryState) throws -> Set<Int64> {
    let names = [JSONLNames.main, JSONLNames.extras].map { $0 + JSONLNames.replacement }
    do {
      let compaction = try MainCompaction(
        LinePieces(name: JSONLNames.main, size: mainSize, files: files, errors: errors),
        state,
        starts: try starts()
      )
      try files.write([], to: names[0])
      try compaction.run { try files.append($0, to: names[0]) }
      try files.flush(names[0])
      try write(state, removed: compaction.removed)
      return compaction.removed
    } catch {
      for name in names { try? files.remove(name) }
      if let failure = error as? FileFailure { throw errors.compacting(failure) }
      throw error
    }
  }

  /// Where the records of each sidecar begin.
  private func starts() throws -> [Sidecar: SidecarFile.Position] {
    var starts: [Sidecar: SidecarFile.Position] = [:]
    for sidecar in openSidecars {
      guard let first = try SidecarFile(sidecar, files, errors).lines.first?.record else {
        continue
      }
      starts[sidecar] = SidecarFile.Position(sequence: first.sequence, ordinal: first.ordinal)
    }
    return starts
  }

  private func write(_ state: MemoryState, removed: Set<Int64>) throws(FileFailure) {
    let name = JSONLNames.extras + JSONLNames.replacement
    var lines = GroupEncoder()
    lines.add(ExtrasRecord(nextId: state.counters.nextId, removed: removed.sorted()))
    let extras = state.extras.sorted { ($0.key.id, $0.key.scope) < ($1.key.id, $1.key.scope) }
    for start in stride(from: 0, to: extras.count, by: Self.extrasPerLine) {
      let part = extras[start..<min(start + Self.extrasPerLine, extras.count)]
      lines.add(
        ExtrasRecord(
          writes: part.map { ExtraWrite(scope: $0.key.scope, id: $0.key.id, value: $0.value) }
        )
      )
    }
    try files.write(lines.extras, to: name)
    try files.flush(name)
  }

  private static let extrasPerLine = 128

  /// Lets the replacement of a file take its place, on disk.
  private func put(_ name: String) throws(FileFailure) {
    try files.rename(name + JSONLNames.replacement, to: name)
    try files.flushNames()
  }
}

extension JSONLErrors {
  /// The error of a compaction that a reader forbids.
  var busy: PerdureError {
    PerdureError(
      .storeBusy,
      "the store \(path) cannot be compacted while another process reads it",
      hint: "try again when it is done"
    )
  }

  /// The error of a compaction that has changed nothing.
  func compacting(_ failure: FileFailure) -> PerdureError {
    let isFull = [28, 122, 27].contains(failure.code)
    return PerdureError(
      .storeUnwritable,
      "the store \(path) could not be compacted and stays as it was",
      hint: isFull
        ? "free as much space on its file system as the store takes"
        : "check the disk and the system log",
      cause: failure.description
    )
  }
}
