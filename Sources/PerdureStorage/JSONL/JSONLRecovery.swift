import PerdureModel
import PerdureValue

/// What the files of a store hold.
struct RecoveredStore {
  var state = MemoryState()
  /// The bytes of each sidecar that is still needed.
  var sidecars: [Sidecar: SidecarSpan] = [:]
  var mainSize = 0
  var extrasSize = 0
}

/// The part of a sidecar that is needed.
struct SidecarSpan: Equatable {
  var size: Int
  /// Where the newest base begins, if only that and what follows it is needed.
  var neededFrom = 0
}

/// Reads the files of a store and, unless it only looks, repairs what a crash left of a commit that
/// was not finished.
struct JSONLRecovery {
  let files: any StoreFiles
  let errors: JSONLErrors
  /// Whether files may be changed.
  let repairs: Bool
  /// Where damage is remembered; without it damage is thrown.
  let passedOver: PassedOver?

  private var sidecars: [Sidecar: SidecarFile] = [:]
  private var recovered = RecoveredStore()
  private var repairsDue: [Repair] = []

  init(
    _ files: any StoreFiles,
    _ errors: JSONLErrors,
    repairs: Bool,
    passedOver: PassedOver? = nil
  ) {
    self.files = files
    self.errors = errors
    self.repairs = repairs
    self.passedOver = passedOver
  }

  /// A change of a file; none is made before everything was found to be readable.
  private enum Repair {
    case truncate(String, Int)
    case remove(String)
  }

  mutating func run() throws -> RecoveredStore {
    let main = try LineReader(JSONLNames.main, files, errors)
    let names = try listed()
    let (markers, lines) = try markers(in: main)
    for name in names.sorted() {
      guard let sidecar = Sidecar(name: name) else { continue }
      sidecars[sidecar] = try SidecarFile(sidecar, files, errors, passedOver)
    }
    try requireMain(names)
    let replay = try replay(markers)
    sidecars = replay.sidecars
    try readExtras(markers: lines, main)
    for (sidecar, file) in sidecars where passedOver == nil {
      try settle(sidecar, file, replay.needs(sidecar))
    }
    if main.isTorn { repairsDue.append(.truncate(JSONLNames.main, main.size)) }
    recovered.mainSize = main.size
    for name in names where JSONLNames.isReplacement(name) { repairsDue.append(.remove(name)) }
    if repairs { try repair() }
    return recovered
  }

  /// Builds the state; damage that is passed over takes its documents with it, so it is built again
  /// without them.
  private mutating func replay(_ markers: [Marker]) throws -> MarkerReplay {
    while true {
      let broken = passedOver?.documents
      var replay = MarkerReplay(
        markers: markers,
        sidecars: sidecars,
        errors: errors,
        passedOver: passedOver
      )
      recovered.state = try replay.run()
      if let passedOver {
        for (sidecar, file) in replay.sidecars {
          do {
            _ = try file.confirmedSize(errors)
          } catch {
            try passedOver.add(error, about: sidecar)
          }
        }
      }
      if broken == passedOver?.documents { return replay }
    }
  }

  private func listed() throws -> [String] {
    do {
      return try files.names()
    } catch {
      throw errors.opening(error)
    }
  }

  /// Without its main file a store would look like the rest of a first commit that was cut off.
  private func requireMain(_ names: [String]) throws {
    guard !names.contains(JSONLNames.main),
      sidecars.values.contains(where: { $0.lines.contains { $0.record.sequence > 1 } })
    else { return }
    throw errors.corrupt(JSONLNames.main, "the file is missing")
  }

  private func markers(
    in main: LineReader
  ) throws -> ([Marker], lines: [Int64: LineReader.Line]) {
    var markers: [Marker] = []
    var lines: [Int64: LineReader.Line] = [:]
    try main.visit(passedOver) { line in
      let marker = try Marker(json: line.json, line: line.number)
      guard marker.sequence > markers.last?.sequence ?? 0 else {
        throw PerdureError(
          .storeCorrupt,
          "the sequence number \(marker.sequence) does not follow the one before"
        )
      }
      markers.append(marker)
      lines[marker.sequence] = LineReader.Line(
        json: .null,
        number: line.number,
        bytes: line.bytes
      )
    }
    return (markers, lines)
  }

  // MARK: Sidecars

  private mutating func settle(
    _ sidecar: Sidecar,
    _ file: SidecarFile,
    _ need: MarkerReplay.Need
  ) throws {
    let end = try file.confirmedSize(errors)
    switch need {
    case .nothing: repairsDue.append(.remove(sidecar.name))
    case .all, .from:
      if end < file.size || file.isTorn { repairsDue.append(.truncate(sidecar.name, end)) }
      var span = SidecarSpan(size: end)
      if case .from(let position) = need { span.neededFrom = file.start(of: position) ?? 0 }
      recovered.sidecars[sidecar] = span
    }
  }

  // MARK: Extras

  private mutating func readExtras(
    markers: [Int64: LineReader.Line],
    _ main: LineReader
  ) throws {
    let file = try LineReader(JSONLNames.extras, files, errors)
    var unconfirmed: Int?
    try file.visit(passedOver) { line in
      let record = try ExtrasRecord(json: line.json)
      let isConfirmed =
        record.commit.map { commit in
          markers[commit.sequence].map {
            ExtrasRecord.digest(main.text(of: $0)) == commit.digest
          } ?? false
        } ?? true
      guard isConfirmed else {
        unconfirmed = unconfirmed ?? line.bytes.lowerBound
        return
      }
      if unconfirmed != nil {
        let cause = "the line follows one that no commit confirms"
        let error = errors.corrupt(JSONLNames.extras, line: line.number, cause)
        // The commit of the line before may be what is damaged; this one counts nevertheless.
        guard let passedOver else { throw error }
        try passedOver.add(error)
      }
      for write in record.writes { recovered.state.set(write) }
      for id in record.removed { recovered.state.remove(id) }
      if let nextId = record.nextId {
        recovered.state.counters.nextId = max(recovered.state.counters.nextId, nextId)
      }
    }
    let end = unconfirmed ?? file.size
    recovered.extrasSize = end
    if end < file.size || file.isTorn {
      repairsDue.append(.truncate(JSONLNames.extras, end))
    }
  }

  // MARK: Repairs

  private func repair() throws {
    for repair in repairsDue {
      switch repair {
      case .truncate(let name, let size):
        do {
          try files.truncate(name, to: size)
        } catch {
          throw errors.opening(error, name)
        }
      // What nobody needs may stay; the next opening tries again.
      case .remove(let name): try? files.remove(name)
      }
    }
  }
}

/// The records of one sidecar.
struct SidecarFile {
  /// The place of a record among all of the store.
  struct Position: Hashable, Comparable {
    let sequence: Int64
    let ordinal: Int64

    static func < (left: Position, right: Position) -> Bool {
      (left.sequence, left.ordinal) < (right.sequence, right.ordinal)
    }
  }

  struct Line {
    let record: SidecarRecord
    let start: Int
    let number: Int
    var isConfirmed = false
  }

  let name: String
  let size: Int
  let isTorn: Bool
  private(set) var lines: [Line] = []
  private var places: [Position: Int] = [:]

  init(
    _ sidecar: Sidecar,
    _ files: any StoreFiles,
    _ errors: JSONLErrors,
    _ passedOver: PassedOver? = nil
  ) throws {
    let reader = try LineReader(sidecar.name, files, errors)
    name = sidecar.name
    size = reader.size
    isTorn = reader.isTorn
    var last: Position?
    try reader.visit(passedOver) { line in
      let record = try SidecarRecord(json: line.json)
      let position = Position(sequence: record.sequence, ordinal: record.ordinal)
      if let last, position <= last {
        throw PerdureError(.storeCorrupt, "the record does not follow the one before")
      }
      guard record.sidecar == sidecar else {
        throw PerdureError(.storeCorrupt, "the record belongs to another file")
      }
      last = position
      places[position] = lines.count
      lines.append(Line(record: record, start: line.bytes.lowerBound, number: line.number))
    }
  }

  func record(at position: Position) -> SidecarRecord? {
    places[position].map { lines[$0].record }
  }

  func start(of position: Position) -> Int? { places[position].map { lines[$0].start } }

  /// Marks a record as confirmed; `false` if it was.
  mutating func confirm(_ position: Position) -> Bool {
    guard let place = places[position] else { return true }
    defer { lines[place].isConfirmed = true }
    return !lines[place].isConfirmed
  }

  /// Where the records end that commits confirm.
  func confirmedSize(_ errors: JSONLErrors) throws -> Int {
    guard let end = lines.firstIndex(where: { !$0.isConfirmed }) else { return size }
    if let late = lines[end...].first(where: { $0.isConfirmed }) {
      throw errors.corrupt(name, line: late.number, "the record follows one that nothing confirms")
    }
    return lines[end].start
  }
}
