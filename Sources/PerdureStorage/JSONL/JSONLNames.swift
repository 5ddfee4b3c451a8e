import PerdureModel
import PerdureValue

/// The files of a JSONL store.
enum JSONLNames {
  /// The commits in their order.
  static let main = "main.jsonl"
  /// What Perdure keeps beside the records; other programs leave it alone.
  static let extras = "perdure.jsonl"
  /// Who may write.
  static let lock = "perdure.lock"
  /// The end of the name of a file that is to take another's place.
  static let replacement = ".reclaim"

  static func file(_ id: TaskID) -> String { "task-\(id).jsonl" }
  static func file(_ id: DocumentID) -> String { "doc-\(id).jsonl" }

  /// Whether a file belongs to a store.
  static func isOurs(_ name: String) -> Bool {
    [main, extras, lock].contains(name) || Sidecar(name: name) != nil || isReplacement(name)
  }

  /// Whether a file was to take the place of another one of a store.
  static func isReplacement(_ name: String) -> Bool {
    guard name.hasSuffix(replacement) else { return false }
    let original = String(name.dropLast(replacement.count))
    return original == main || original == extras || Sidecar(name: original) != nil
  }
}

/// The file beside `main.jsonl` that holds the records of one task or document.
enum Sidecar: Hashable {
  case task(TaskID)
  case document(DocumentID)

  /// Reads a name; `nil` if it is no sidecar's.
  init?(name: String) {
    guard name.hasSuffix(".jsonl") else { return nil }
    let stem = name.dropLast(".jsonl".count)
    guard let dash = stem.firstIndex(of: "-"), let value = Int64(stem[stem.index(after: dash)...])
    else { return nil }
    switch stem[..<dash] {
    case "task": self.init(TaskID(value).map { .task($0) }, name)
    case "doc": self.init(DocumentID(value).map { .document($0) }, name)
    default: return nil
    }
  }

  // A number with a sign or leading zeros would be a second name of one sidecar.
  private init?(_ sidecar: Sidecar?, _ name: String) {
    guard let sidecar, sidecar.name == name else { return nil }
    self = sidecar
  }

  var name: String {
    switch self {
    case .task(let id): JSONLNames.file(id)
    case .document(let id): JSONLNames.file(id)
    }
  }
}

/// The errors of one JSONL store.
struct JSONLErrors {
  let path: String

  func corrupt(_ file: String, line: Int? = nil, _ cause: String) -> PerdureError {
    let place = line.map { "line \($0) of \(file)" } ?? file
    return PerdureError(
      .storeCorrupt,
      "the store \(path) is damaged in \(place)",
      hint: "restore it from a copy",
      details: line.map { ["file": .string(file), "line": .int($0)] } ?? ["file": .string(file)],
      cause: cause
    )
  }

  /// What an error says besides its remedy.
  static func cause(_ error: PerdureError) -> String {
    error.cause.map { "\(error.message): \($0)" } ?? error.message
  }

  func newer(_ file: String, format: Int64) -> PerdureError {
    PerdureError(
      .storeUnreadable,
      "the store \(path) is from a newer version (\(file) has the format \(format), known is 1)",
      hint: "open it with a newer perdure"
    )
  }

  /// The error of a file that cannot be read or repaired when the store is opened.
  func opening(_ failure: FileFailure, _ file: String? = nil) -> PerdureError {
    let object = file.map { "the file \($0) of the store \(path)" } ?? "the store \(path)"
    switch failure.code {
    case 28, 122, 27:
      return PerdureError(
        .storeUnwritable,
        "\(object) cannot grow",
        hint: "free space on its file system; nothing that was committed is lost",
        cause: failure.description
      )
    case 1, 13, 30:
      return PerdureError(
        .storeUnwritable,
        "\(object) may not be used",
        hint: "make the folder and its files readable and writable, or choose another path",
        cause: failure.description
      )
    default:
      return PerdureError(
        .storeUnreadable,
        "\(object) cannot be opened",
        hint: "check that the path names a folder, and that the folder above it exists",
        cause: failure.description
      )
    }
  }

  /// The error of a write whose outcome nobody knows.
  func writing(_ failure: FileFailure, _ file: String) -> PerdureError {
    if [28, 122, 27].contains(failure.code) {
      return PerdureError(
        .storeUnwritable,
        "the store \(path) cannot grow",
        hint: "free space on its file system, then open the store again",
        cause: failure.description
      )
    }
    return failing(failure, file)
  }

  /// The error of a store that is not to be used any more.
  func failing(_ failure: FileFailure, _ file: String) -> PerdureError {
    PerdureError(
      .storageFailed,
      "the store \(path) failed while \(file) was written",
      hint: "check the disk and the system log, then open the store again",
      cause: failure.description
    )
  }
}
