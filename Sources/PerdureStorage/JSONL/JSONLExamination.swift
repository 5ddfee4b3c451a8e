package import PerdureModel
import PerdureValue

extension JSONLStorage {
  /// Reports what is damaged in the files of the store in the folder at `path`, and returns what
  /// can be read of it nevertheless.
  package static func examine(
    path: String,
    _ report: @escaping FindingSink
  ) async throws -> MemorySnapshot {
    let path = StorePath.resolved(path)
    try StorePath.checkFolder(path, mayBeAbsent: false)
    let thread = try StoreThread<JSONLJournal>()
    do {
      let (state, findings) = try await thread.perform { try examineFiles(path) }
      await thread.stop()
      for finding in findings { report(finding) }
      return MemorySnapshot(state)
    } catch {
      await thread.stop()
      throw error
    }
  }

  private static func examineFiles(_ path: String) throws -> (MemoryState, [StoreFinding]) {
    let errors = JSONLErrors(path: path)
    let files = try folder(path, errors, creates: false)
    try requireStore(files, errors, mayBeEmpty: false)
    files.share()
    defer { files.release() }
    var examination = JSONLExamination(files, errors)
    for _ in 0..<20 {
      let before = try? files.mark(JSONLNames.main)
      examination = JSONLExamination(files, errors)
      try examination.run()
      // An owner that does not know of sharing may remove what was not read yet.
      if !examination.findings.contains(where: { $0.isDamage })
        || before == (try? files.mark(JSONLNames.main))
      {
        break
      }
    }
    return (examination.state, examination.findings)
  }
}

/// Finds damage in the files of a store, and goes on behind it.
private struct JSONLExamination {
  private let files: FolderFiles
  private let errors: JSONLErrors
  private(set) var findings: [StoreFinding] = []
  private(set) var state = MemoryState()
  private var markers: [Marker] = []
  private var digests: [Int64: String] = [:]
  private var references = SidecarReferences()

  init(_ files: FolderFiles, _ errors: JSONLErrors) {
    self.files = files
    self.errors = errors
  }

  mutating func run() throws {
    let main = try LineReader(JSONLNames.main, files, errors)
    let names: [String]
    do {
      names = try files.names()
    } catch {
      throw errors.opening(error)
    }
    if !names.contains(JSONLNames.main) { find("missing_file", JSONLNames.main, "it is missing") }
    try readMain(main)
    for name in names.sorted() { try visit(name) }
    findings += references.findings(markers)
    try replay()
    try readExtras()
    try compareWithRecovery()
  }

  private mutating func find(_ code: String, _ object: String, _ message: String) {
    findings.append(StoreFinding(code, object, message))
  }

  private mutating func note(_ code: String, _ object: String, _ message: String) {
    findings.append(StoreFinding(code, object, message, isDamage: false))
  }

  private mutating func find(_ code: String, line: Int, of file: String, _ error: PerdureError) {
    find(code, "line \(line) of \(file)", error.cause ?? error.message)
  }

  private mutating func noteTorn(_ reader: LineReader) {
    guard reader.isTorn else { return }
    note(
      "torn_tail",
      reader.name,
      "it ends in a line that was cut off; the next opening for writing removes that"
    )
  }

  // MARK: Files

  private mutating func readMain(_ main: LineReader) throws {
    noteTorn(main)
    var last: Int64 = 0
    var markers: [Marker] = []
    var digests: [Int64: String] = [:]
    var broken: [(Int, PerdureError)] = []
    try main.visit { line in
      let marker = try Marker(json: line.json, line: line.number)
      guard marker.sequence > last else {
        throw PerdureError(
          .storeCorrupt,
          "the sequence number \(marker.sequence) does not follow \(last)"
        )
      }
      last = marker.sequence
      markers.append(marker)
      digests[marker.sequence] = ExtrasRecord.digest(main.text(of: line))
    } reporting: {
      broken.append(($0, $1))
    }
    for (line, error) in broken { find("line", line: line, of: main.name, error) }
    self.markers = markers
    self.digests = digests
  }

  private mutating func visit(_ name: String) throws {
    if JSONLNames.isReplacement(name) {
      let message = "it was to take the place of another file; the next opening removes it"
      return note("stray_file", name, message)
    }
    guard let sidecar = Sidecar(name: name) else {
      if !JSONLNames.isOurs(name) {
        note("foreign_file", name, "it is no file of a store, and is left alone")
      }
      return
    }
    let reader = try LineReader(name, files, errors)
    noteTorn(reader)
    var lines: [SidecarFile.Line] = []
    var broken: [(Int, PerdureError)] = []
    var last: SidecarFile.Position?
    try reader.visit { line in
      let record = try SidecarRecord(json: line.json)
      let position = SidecarFile.Position(sequence: record.sequence, ordinal: record.ordinal)
      if let last, position <= last {
        throw PerdureError(.storeCorrupt, "the record does not follow the one before")
      }
      guard record.sidecar == sidecar else {
        throw PerdureError(.storeCorrupt, "the record belongs to another file")
      }
      last = position
      lines.append(
        SidecarFile.Line(record: record, start: line.bytes.lowerBound, number: line.number)
      )
    } reporting: {
      broken.append(($0, $1))
    }
    for (line, error) in broken { find("line", line: line, of: name, error) }
    references.add(sidecar, lines)
  }

  // MARK: Commits

  private mutating func replay() throws {
    for marker in markers {
      do {
        try state.replay(
          Batch(sequence: marker.sequence, writes: references.writes(of: marker), at: 0)
        )
      } catch let error as PerdureError where error.code == .invalidBatch {
        find("commit", line: marker.line, of: JSONLNames.main, error)
        state.counters.nextSequence = marker.sequence + 1
      }
    }
  }

  private mutating func readExtras() throws {
    let file = try LineReader(JSONLNames.extras, files, errors)
    noteTorn(file)
    var broken: [(Int, PerdureError)] = []
    var unconfirmed = false
    var state = state
    let digests = digests
    try file.visit { line in
      let record = try ExtrasRecord(json: line.json)
      guard record.commit.map({ digests[$0.sequence] == $0.digest }) ?? true else {
        unconfirmed = true
        return
      }
      if unconfirmed {
        throw PerdureError(.storeCorrupt, "the line follows one that no commit confirms")
      }
      for write in record.writes { state.set(write) }
      for id in record.removed { state.remove(id) }
      state.counters.nextId = max(state.counters.nextId, record.nextId ?? 0)
    } reporting: {
      broken.append(($0, $1))
    }
    self.state = state
    for (line, error) in broken { find("line", line: line, of: file.name, error) }
    if unconfirmed, broken.isEmpty {
      note("unconfirmed_tail", file.name, "it ends in lines of a commit that was cut off")
    }
  }

  /// What is sound here must open; and what opens is read as every opening reads it.
  private mutating func compareWithRecovery() throws {
    guard !findings.contains(where: { $0.isDamage }) else { return }
    do {
      var recovery = JSONLRecovery(files, errors, repairs: false)
      state = try recovery.run().state
    } catch let error as PerdureError where error.code == .storeCorrupt {
      find("unreadable", error.details?["file"]?.text ?? "the store", error.cause ?? error.message)
    }
  }
}

/// Which lines of `main.jsonl` name which records of the files beside it.
private struct SidecarReferences {
  private typealias Position = SidecarFile.Position

  private var lines: [Sidecar: [SidecarFile.Line]] = [:]
  private var records: [Sidecar: [Position: SidecarRecord]] = [:]
  private var currentOnly: Set<DocumentID> = []
  private var endings: [Sidecar: Int64] = [:]
  private var newestBases: [DocumentID: Position] = [:]

  mutating func add(_ sidecar: Sidecar, _ lines: [SidecarFile.Line]) {
    self.lines[sidecar] = lines
    for line in lines {
      let position = Position(sequence: line.record.sequence, ordinal: line.record.ordinal)
      records[sidecar, default: [:]][position] = line.record
    }
  }

  private static func reference(
    _ write: Marker.Write,
    _ sequence: Int64
  ) -> (Sidecar, SidecarFile.Position)? {
    switch write {
    case .taskSidecar(let id, let ordinal):
      (.task(id), Position(sequence: sequence, ordinal: ordinal))
    case .createDocument(let record, let ordinal):
      (.document(record.id), Position(sequence: sequence, ordinal: ordinal))
    case .changeDocument(let id, let ordinal):
      (.document(id), Position(sequence: sequence, ordinal: ordinal))
    default: nil
    }
  }

  private mutating func survey(_ marker: Marker) {
    for write in marker.writes {
      switch write {
      case .task(let record): endings[.task(record.id)] = marker.sequence
      case .createDocument(let record, _) where record.isCurrentOnly:
        currentOnly.insert(record.id)
      case .retireDocument(let id) where currentOnly.contains(id):
        endings[.document(id)] = marker.sequence
      default: break
      }
      guard let (sidecar, position) = Self.reference(write, marker.sequence),
        case .document(let id) = sidecar, currentOnly.contains(id),
        case .document(_, .base)? = records[sidecar]?[position]?.payload
      else { continue }
      newestBases[id] = max(newestBases[id] ?? position, position)
    }
  }

  /// Whether nothing that came later made a record unnecessary.
  private func isNeeded(_ sidecar: Sidecar, _ position: Position) -> Bool {
    switch sidecar {
    case .task: return position.sequence > endings[sidecar] ?? 0
    case .document(let id):
      return endings[sidecar] == nil && newestBases[id].map { position >= $0 } ?? true
    }
  }

  mutating func findings(_ markers: [Marker]) -> [StoreFinding] {
    for marker in markers { survey(marker) }
    var findings: [StoreFinding] = []
    var confirmed: [Sidecar: Set<Position>] = [:]
    for marker in markers {
      for write in marker.writes {
        guard let (sidecar, position) = Self.reference(write, marker.sequence) else { continue }
        if !confirmed[sidecar, default: []].insert(position).inserted {
          findings.append(
            StoreFinding(
              "named_twice",
              "line \(marker.line) of \(JSONLNames.main)",
              "it names the record \(position.ordinal) of \(sidecar.name) twice"
            )
          )
        }
        guard records[sidecar]?[position] == nil, isNeeded(sidecar, position) else { continue }
        findings.append(
          StoreFinding(
            "record_missing",
            sidecar.name,
            "the record \(position.ordinal) of the commit \(position.sequence) is missing"
          )
        )
      }
    }
    for (sidecar, lines) in lines.sorted(by: { $0.key.name < $1.key.name }) {
      findings += tail(sidecar, lines, confirmed[sidecar] ?? [])
    }
    return findings
  }

  private func tail(
    _ sidecar: Sidecar,
    _ lines: [SidecarFile.Line],
    _ confirmed: Set<Position>
  ) -> [StoreFinding] {
    func isConfirmed(_ line: SidecarFile.Line) -> Bool {
      confirmed.contains(Position(sequence: line.record.sequence, ordinal: line.record.ordinal))
    }
    guard let end = lines.firstIndex(where: { !isConfirmed($0) }) else { return [] }
    guard let late = lines[end...].first(where: isConfirmed) else {
      let message = "it ends in records of a commit that was cut off"
      return [StoreFinding("unconfirmed_tail", sidecar.name, message, isDamage: false)]
    }
    let object = "line \(late.number) of \(sidecar.name)"
    return [StoreFinding("unconfirmed", object, "the record follows one that nothing confirms")]
  }

  /// The writes of a commit as far as their records are there.
  func writes(of marker: Marker) -> [StorageWrite] {
    marker.writes.compactMap { write in
      switch write {
      case .conversation(let record): return .conversation(record)
      case .entry(let record): return .entry(record)
      case .submission(let record): return .submission(record)
      case .task(let record): return .task(record)
      case .retireDocument(let id): return .retireDocument(id)
      case .taskSidecar, .createDocument, .changeDocument: break
      }
      guard let (sidecar, position) = Self.reference(write, marker.sequence) else { return nil }
      let payload = isNeeded(sidecar, position) ? records[sidecar]?[position]?.payload : nil
      switch (write, payload) {
      case (.taskSidecar, .task(let record)?): return .task(record)
      case (.changeDocument(let id, _), .document(_, let content)?):
        return .changeDocument(id, content)
      case (.createDocument(let record, _), .document(_, .base(let version, let value))?):
        return .createDocument(record, version: version, value: value)
      case (.createDocument(let record, _), nil):
        return .createDocument(record, version: 1, value: [:])
      default: return nil
      }
    }
  }
}
