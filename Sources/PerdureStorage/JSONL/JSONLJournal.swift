import PerdureModel
import PerdureValue
import Synchronization

/// The state of an open store, which reads take without waiting for the disk.
final class JSONLState: Sendable {
  let memory: Mutex<MemoryState>
  /// Why the store answers nothing any more.
  let failure: Mutex<PerdureError?>

  init(_ memory: MemoryState) {
    self.memory = Mutex(memory)
    failure = Mutex(nil)
  }

  func check() throws {
    if let failure = failure.withLock({ $0 }) { throw failure }
  }
}

/// The files of an open store, for the one thread that writes them.
final class JSONLJournal: BlockingStore {
  let state: JSONLState
  let files: any StoreFiles
  let errors: JSONLErrors
  private let flushes: Bool
  // Held as long as the store is open.
  private var lock: StoreLock?

  private var main: FileMark
  private var hasExtras: Bool
  private var sidecars: [Sidecar: SidecarSpan]
  /// The sidecars that nobody needs any more.
  private var finished: Set<Sidecar> = []
  /// Whether names were added that are not on disk yet.
  private var hasNewNames = false

  /// How many bytes may be unnecessary in a sidecar before it is rewritten, where that costs waits
  /// for the disk.
  private static let tolerated = 64 << 10

  /// Opens the files for writing, and leaves nothing behind of commits that were cut off.
  init(
    _ files: any StoreFiles,
    _ errors: JSONLErrors,
    flushes: Bool,
    lock: StoreLock?
  ) throws {
    self.files = files
    self.errors = errors
    self.flushes = flushes
    self.lock = lock
    var recovery = JSONLRecovery(files, errors, repairs: true)
    let recovered = try recovery.run()
    state = JSONLState(recovered.state)
    hasExtras = recovered.extrasSize > 0
    sidecars = recovered.sidecars
    do {
      try files.append([], to: JSONLNames.main)
      if flushes { try files.flushNames() }
      guard let mark = try files.mark(JSONLNames.main), mark.size == recovered.mainSize else {
        throw errors.moved
      }
      main = mark
    } catch let error as FileFailure {
      throw errors.opening(error, JSONLNames.main)
    }
    reclaim(tolerating: 0)
  }

  // MARK: Commits

  func apply(_ group: [Batch], expecting expected: StoreCounters, nextId: Int64) throws {
    try state.check()
    let prepared = try state.memory.withLock {
      try $0.prepare(group, expecting: expected, nextId: nextId)
    }
    try checkInPlace()
    var encoder = GroupEncoder()
    var derived = expected.nextId
    for (batch, effects) in zip(group, prepared.effects) {
      derived = max(derived, effects.nextId)
      let isLast = batch.sequence + 1 == prepared.counters.nextSequence
      encoder.add(batch, effects, nextId: isLast && derived < nextId ? nextId : nil)
    }
    if group.isEmpty, nextId > expected.nextId {
      encoder.add(ExtrasRecord(commit: nil, nextId: nextId, writes: []))
    }
    try write(encoder)
    state.memory.withLock { $0.adopt(prepared, group) }
    for sidecar in encoder.finished where sidecars.removeValue(forKey: sidecar) != nil {
      finished.insert(sidecar)
    }
    for sidecar in encoder.touched where sidecars[sidecar] != nil { finished.remove(sidecar) }
    reclaim(encoder.touched, tolerating: flushes ? Self.tolerated : 0)
  }

  /// Throws if another program wrote to the store or moved it.
  func checkInPlace() throws {
    let found: FileMark?
    do {
      found = try files.mark(JSONLNames.main)
    } catch {
      throw errors.opening(error, JSONLNames.main)
    }
    guard files.areInPlace(), let found, found.number == main.number else { throw errors.moved }
    guard found.size == main.size else { throw errors.foreign(expected: main.size, found.size) }
  }

  private func write(_ group: GroupEncoder) throws {
    var name = JSONLNames.main
    do {
      for sidecar in group.touched {
        name = sidecar.name
        try append(group.additions[sidecar] ?? GroupEncoder.Addition(), to: sidecar)
      }
      if !group.extras.isEmpty {
        name = JSONLNames.extras
        try files.append(group.extras, to: name)
        hasNewNames = hasNewNames || !hasExtras
        hasExtras = true
      }
      if flushes {
        for sidecar in group.touched {
          name = sidecar.name
          try files.flush(name)
        }
        name = JSONLNames.extras
        if !group.extras.isEmpty { try files.flush(name) }
        // A marker must not be on disk before the names of what it confirms.
        if hasNewNames { try files.flushNames() }
        hasNewNames = false
      }
      name = JSONLNames.main
      guard !group.markers.isEmpty else { return }
      try files.append(group.markers, to: name)
      main.size += group.markers.count
      if flushes { try files.flush(name) }
    } catch {
      let error = errors.writing(error, name)
      state.failure.withLock { $0 = error }
      throw error
    }
  }

  private func append(_ addition: GroupEncoder.Addition, to sidecar: Sidecar) throws(FileFailure) {
    try files.append(addition.bytes, to: sidecar.name)
    if sidecars[sidecar] == nil { hasNewNames = true }
    var span = sidecars[sidecar] ?? SidecarSpan(size: 0)
    if let base = addition.newBase { span.neededFrom = span.size + base }
    span.size += addition.bytes.count
    sidecars[sidecar] = span
  }

  // MARK: Reclamation

  // All of it is upkeep: what fails is tried again later, at the latest when the store is opened.

  /// Removes what is finished, and rewrites what begins with more than is tolerated; among all
  /// sidecars or some.
  private func reclaim(_ candidates: [Sidecar]? = nil, tolerating limit: Int) {
    let rewritten = (candidates ?? Array(sidecars.keys)).filter {
      sidecars[$0]?.neededFrom ?? 0 > limit
    }
    guard !finished.isEmpty || !rewritten.isEmpty, files.exclude() else { return }
    defer { files.release() }
    removeFinished(rewriting: rewritten)
  }

  /// Leaves nothing unnecessary in sidecars, while readers are kept waiting.
  func reclaimAll() {
    removeFinished(rewriting: sidecars.filter { $0.value.neededFrom > 0 }.map { $0.key })
  }

  private func removeFinished(rewriting rewritten: [Sidecar]) {
    for sidecar in finished { try? files.remove(sidecar.name) }
    finished = []
    for sidecar in rewritten { rewrite(sidecar) }
  }

  private func rewrite(_ sidecar: Sidecar) {
    guard let span = sidecars[sidecar] else { return }
    let temporary = sidecar.name + JSONLNames.replacement
    do {
      guard let needed = try files.read(sidecar.name, from: span.neededFrom),
        needed.count == span.size - span.neededFrom
      else { return }
      try files.write(needed, to: temporary)
      if flushes { try files.flush(temporary) }
      try files.rename(temporary, to: sidecar.name)
    } catch { return }
    hasNewNames = true
    sidecars[sidecar] = SidecarSpan(size: span.size - span.neededFrom)
  }

  /// How many bytes the main file has.
  var mainSize: Int { main.size }

  /// The sidecars that are needed.
  var openSidecars: [Sidecar] { Array(sidecars.keys) }

  /// Removes the sidecars that the main file names no more.
  func dropSidecars(unless isKept: (Sidecar) -> Bool) {
    for sidecar in sidecars.keys.filter({ !isKept($0) }) {
      sidecars[sidecar] = nil
      try? files.remove(sidecar.name)
    }
  }

  /// Goes on with the main file that has taken the place of the old one.
  func adoptMain() throws(FileFailure) {
    guard let mark = try files.mark(JSONLNames.main) else {
      throw FileFailure(code: 2, "No such file or directory")
    }
    main = mark
    hasExtras = true
  }

  func afterCall() {}

  func close() {
    if state.failure.withLock({ $0 == nil }) {
      reclaim(tolerating: 0)
    }
    lock = nil
  }
}

extension JSONLErrors {
  var moved: PerdureError {
    PerdureError(
      .foreignWriter,
      "the store \(path) was moved or replaced while it was open",
      hint: "open the store again"
    )
  }

  func foreign(expected: Int, _ found: Int) -> PerdureError {
    PerdureError(
      .foreignWriter,
      "another program wrote to the store \(path) while it was open",
      hint: "stop the other program and open the store again",
      details: ["expected": .int(expected), "found": .int(found)]
    )
  }
}
