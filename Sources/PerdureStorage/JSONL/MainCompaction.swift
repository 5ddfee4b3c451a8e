import PerdureModel
import PerdureValue

/// What of `main.jsonl` is still needed.
///
/// A line is kept byte by byte if all of it is needed, so that members that only other programs know
/// stay. Every commit that something still rests on keeps its number, and so does the last one.
struct MainCompaction {
  private let main: LinePieces
  private let state: MemoryState
  /// Where the records of each sidecar begin; what lies before is gone.
  private let starts: [Sidecar: SidecarFile.Position]

  /// The last line that writes a task or submission, by its id.
  private var newest: [Int64: Int] = [:]
  private var lastLine = 0
  /// The ids that the file names and the store does not hold any more.
  private(set) var removed: Set<Int64> = []

  init(
    _ main: LinePieces,
    _ state: MemoryState,
    starts: [Sidecar: SidecarFile.Position]
  ) throws {
    self.main = main
    self.state = state
    self.starts = starts
    try main.visit { line in
      lastLine = line.number
      for write in line.json["writes"]?.array ?? [] {
        guard let (type, id) = Self.subject(of: write) else { continue }
        if type == "submission" || type == "task" { newest[id] = line.number }
        if state.types[id] == nil { removed.insert(id) }
      }
    }
  }

  /// Hands the new file to `write`, a piece at a time.
  func run(_ write: ([UInt8]) throws -> Void) throws {
    var piece: [UInt8] = []
    try main.visit { line in
      guard let bytes = kept(line) else { return }
      piece += bytes
      piece.append(UInt8(ascii: "\n"))
      guard piece.count >= Self.pieceSize else { return }
      try write(piece)
      piece = []
    }
    try write(piece)
  }

  private static let pieceSize = 1 << 20

  private func kept(_ line: LinePieces.Line) -> [UInt8]? {
    let writes = line.json["writes"]?.array ?? []
    let sequence = line.json["seq"]?.int ?? 0
    var needed = writes.filter { isNeeded($0, sequence, line.number) }
    let isLast = line.number == lastLine
    if isLast { needed += placeholder }
    if needed.isEmpty, !isLast { return nil }
    if needed == writes { return line.bytes }
    guard var object = line.json.object else { return line.bytes }
    object["writes"] = .array(needed)
    return JSON.object(object).encoded
  }

  /// Makes other programs count on from where this store counts on.
  private var placeholder: [JSON] {
    let last = state.counters.nextId - 1
    guard last > state.types.keys.max() ?? 0, last > 1, let id = DocumentID(last) else { return [] }
    return Placeholder.writes(id).map { $0.json }
  }

  /// What a write is about.
  private static func subject(of write: JSON) -> (type: String, id: Int64)? {
    guard let type = write["type"]?.text else { return nil }
    let id =
      switch type {
      case "conversation", "entry", "submission", "task": write["value"]?["id"]?.int
      case "document.create": write["record"]?["id"]?.int
      default: write["id"]?.int
      }
    return id.map { (type, $0) }
  }

  private func isNeeded(_ write: JSON, _ sequence: Int64, _ line: Int) -> Bool {
    guard let (type, id) = Self.subject(of: write), state.types[id] != nil else { return false }
    let position = SidecarFile.Position(
      sequence: sequence,
      ordinal: write["ordinal"]?.int ?? 0
    )
    switch type {
    case "submission": return newest[id] == line
    case "task": return newest[id] == line && !isLive(id)
    case "task.sidecar": return isLive(id) && isKept(position, TaskID(id).map { .task($0) })
    case "document.change":
      guard let id = DocumentID(id), let record = state.documents[id]?.record else { return false }
      if !record.isCurrentOnly { return true }
      return record.retiredAt == nil && isKept(position, .document(id))
    default: return true
    }
  }

  private func isLive(_ id: Int64) -> Bool {
    TaskID(id).flatMap { state.tasks[$0] }?.isLive == true
  }

  private func isKept(_ position: SidecarFile.Position, _ sidecar: Sidecar?) -> Bool {
    guard let start = sidecar.flatMap({ starts[$0] }) else { return false }
    return position >= start
  }
}
