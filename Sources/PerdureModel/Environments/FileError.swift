import PerdureValue

/// Why an operation on a file did not happen.
public struct FileError: Error, Sendable, Equatable {
  /// What kind of failure it is.
  public enum Code: String, Sendable, CaseIterable {
    /// The task that asked was cancelled before anything happened.
    case aborted
    case notFound = "not_found"
    case permissionDenied = "permission_denied"
    case notDirectory = "not_directory"
    case isDirectory = "is_directory"
    case invalid
    case notSupported = "not_supported"
    case unknown
  }

  /// What precisely happened, where the code is not all that is known.
  public enum Reason: String, Sendable, CaseIterable {
    /// The file is no longer the one that was looked at.
    case conflict
    case tooLarge = "too_large"
    case noSpace = "no_space"
    case busy
  }

  public var code: Code
  public var reason: Reason?
  /// One clause without a full stop that names the object.
  public var message: String
  /// What the reader can do about it, if anything.
  public var hint: String?
  /// The path as the environment sees it.
  public var path: String?

  /// Makes an error.
  public init(
    _ code: Code,
    _ message: String,
    path: String? = nil,
    reason: Reason? = nil,
    hint: String? = nil
  ) {
    self.code = code
    self.message = message
    self.path = path
    self.reason = reason
    self.hint = hint
  }
}

extension FileError: CustomStringConvertible {
  public var description: String { hint.map { "\(message); \($0)" } ?? message }

  /// The same for those who know one kind of error only.
  public var general: PerdureError {
    var details: JSONObject = ["code": .string(code.rawValue)]
    if let reason { details["reason"] = .string(reason.rawValue) }
    if let path { details["path"] = .string(path) }
    return PerdureError(.file, message, hint: hint, details: .object(details))
  }

  /// What is thrown when the task that asks is cancelled already.
  public static func aborted(_ path: String?) -> FileError {
    FileError(.aborted, "the operation was cancelled before it began", path: path)
  }
}

/// Why a command did not run to its end.
public struct ExecutionError: Error, Sendable, Equatable {
  /// What kind of failure it is.
  public enum Code: String, Sendable, CaseIterable {
    /// The task that asked was cancelled.
    case aborted
    case timeout
    case shellUnavailable = "shell_unavailable"
    case spawnError = "spawn_error"
    /// The code that takes the output threw.
    case callbackError = "callback_error"
    /// The environment or the session cannot do this.
    case notSupported = "not_supported"
    /// The command of the session has ended.
    case sessionEnded = "session_ended"
    case unknown
  }

  public var code: Code
  /// One clause without a full stop that names the object.
  public var message: String
  /// What the reader can do about it, if anything.
  public var hint: String?
  /// Where the output of the command is, if it was kept in a file.
  public var spillPath: String?
  /// The limit that ended the command, as `memory` or `output`; absent: none did.
  public var limit: String?
  /// What held back a command that had begun, if the environment tells it of each command.
  public var confinement: Confinement?

  /// Makes an error.
  public init(
    _ code: Code,
    _ message: String,
    hint: String? = nil,
    spillPath: String? = nil,
    limit: String? = nil,
    confinement: Confinement? = nil
  ) {
    self.code = code
    self.message = message
    self.hint = hint
    self.spillPath = spillPath
    self.limit = limit
    self.confinement = confinement
  }
}

extension ExecutionError: CustomStringConvertible {
  public var description: String { hint.map { "\(message); \($0)" } ?? message }

  /// The same for those who know one kind of error only.
  public var general: PerdureError {
    var details: JSONObject = ["code": .string(code.rawValue)]
    if let spillPath { details["spillPath"] = .string(spillPath) }
    if let limit { details["limit"] = .string(limit) }
    return PerdureError(.execution, message, hint: hint, details: .object(details))
  }
}

extension PerdureError.Code {
  /// An operation on a file of an environment failed; `details` has its own code and the path.
  public static let file: Self = "file"
  /// A command of an environment did not run to its end; `details` has its own code.
  public static let execution: Self = "execution"
}

extension String {
  /// The text in quotes as a message can show it: bounded, and without control characters.
  public var quotedForMessage: String {
    let limit = 300
    var text = ""
    for scalar in unicodeScalars.prefix(limit) {
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate:
        text += "\\u{\(String(scalar.value, radix: 16))}"
      default: text.unicodeScalars.append(scalar)
      }
    }
    return unicodeScalars.dropFirst(limit).isEmpty ? "'\(text)'" : "'\(text)…'"
  }
}
