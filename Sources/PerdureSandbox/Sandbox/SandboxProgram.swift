import Glibc
package import PerdureModel
import PerdureValue

/// Where the launcher is, and what is said when it cannot be used.
package enum SandboxProgram {
  /// Its name, beside the program that uses it.
  package static let name = "perdure-sandbox"
  private static let variable = "PERDURE_SANDBOX"

  /// Finds it: the one that is given, else that of `PERDURE_SANDBOX`, else the one beside this program.
  package static func find(_ given: String? = nil) throws(PerdureError) -> String {
    if let given = given ?? ownVariable(variable) {
      guard given.hasPrefix("/"), isExecutable(given) else {
        throw PerdureError(
          .sandboxUnavailable,
          "the launcher of sandboxes \(given.quotedForMessage) is no program",
          hint: "set \(variable) to the absolute path of \(name)"
        )
      }
      return given
    }
    let folder = ownProgram()?.split(separator: "/").dropLast().joined(separator: "/") ?? ""
    let beside = "/\(folder)/\(name)"
    guard isExecutable(beside) else {
      throw PerdureError(
        .sandboxUnavailable,
        "there is no launcher of sandboxes at \(beside)",
        hint: "install \(name) beside this program"
      )
    }
    return beside
  }

  /// Says that a program is no launcher that this version can use.
  static func stranger(_ path: String) -> PerdureError {
    PerdureError(
      .sandboxUnavailable,
      "the launcher of sandboxes at \(path) is of another version than this program",
      hint: "install the \(name) that belongs to it"
    )
  }

  /// Says why a launch came to nothing; without a status, it was given up.
  static func failure(
    of records: [SandboxRecord],
    _ status: Int32?,
    _ path: String
  ) -> PerdureError {
    if let failure = SandboxOutcome(records: records).failure {
      let isStranger = failure.details?["detail"]?.text?.contains("of different versions") == true
      return isStranger ? stranger(path) : failure
    }
    let isForeign = records.contains { if case .unknown = $0 { true } else { false } }
    return isForeign ? stranger(path) : silence(path, status)
  }

  /// Says why a launch that ended came to nothing.
  static func failure(of outcome: SandboxOutcome, _ path: String) -> PerdureError {
    failure(of: outcome.records, outcome.status, path)
  }

  /// Says that a launcher told nothing of a failure.
  static func silence(_ path: String, _ status: Int32?) -> PerdureError {
    let what = status.map { "ended without a word, with status \($0)" } ?? "took longer than 15 s"
    return PerdureError(
      .sandboxUnavailable,
      "the launcher of sandboxes at \(path) \(what)",
      hint: "try again; see whether the machine is short of memory, and whether that is \(name)"
    )
  }
}

/// Takes records from pieces of text.
struct RecordLines {
  private var rest: [UInt8] = []
  private(set) var records: [SandboxRecord] = []

  /// A launcher's line has no more.
  private static let longest = 1 << 16

  mutating func take(_ bytes: ArraySlice<UInt8>) {
    rest += bytes
    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
      records.append(SandboxRecord(line: String(decoding: rest[..<end], as: UTF8.self)))
      rest.removeFirst(end + 1)
    }
    if rest.count > Self.longest { rest = [] }
  }
}
