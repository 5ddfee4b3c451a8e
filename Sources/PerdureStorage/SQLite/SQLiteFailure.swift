import CSQLite
import Glibc
package import PerdureModel

/// A failure of SQLite, which becomes one sentence about the store.
package struct SQLiteFailure: Sendable {
  /// The extended result code.
  let code: Int32
  /// What SQLite says about it.
  let text: String
  /// The error of the system call that failed, or 0.
  let systemError: Int32

  /// Makes a failure.
  package init(code: Int32, text: String, systemError: Int32) {
    self.code = code
    self.text = text
    self.systemError = systemError
  }

  /// Returns the error for the store at `path`.
  package func error(path: String) -> PerdureError {
    switch code & 0xFF {
    case SQLITE_NOTADB:
      PerdureError(
        .storeUnreadable,
        "\(path) is not a store",
        hint: "choose another path for the store",
        cause: "not a SQLite database"
      )
    case SQLITE_CORRUPT:
      PerdureError(
        .storeCorrupt,
        "the store \(path) is damaged",
        hint: "restore it from a copy, or recover its rows with 'sqlite3 FILE .recover'",
        cause: text
      )
    case SQLITE_BUSY, SQLITE_LOCKED:
      PerdureError(
        .storeInUse,
        "another program holds the store \(path) locked",
        hint: "close that program, then try again",
        cause: text
      )
    case SQLITE_FULL: full(path)
    case SQLITE_READONLY where code == SQLITE_READONLY | (4 << 8): Self.moved(path: path)
    case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH: readOnly(path)
    case SQLITE_CANTOPEN: cannotOpen(path)
    case SQLITE_IOERR: inputOutput(path)
    case SQLITE_CONSTRAINT, SQLITE_MISMATCH:
      PerdureError(
        .storeCorrupt,
        "the store \(path) contradicts its own counters or checks",
        hint: "restore it from a copy",
        cause: text
      )
    case SQLITE_PROTOCOL:
      // A reader finds a log that a death cut off before its first commit.
      PerdureError(
        .storeUnreadable,
        "the store \(path) was not closed and cannot be read as it is",
        hint: "open it once for writing, for example with 'perdure resume'",
        cause: text
      )
    case SQLITE_MISUSE:
      PerdureError(.closed, "the store \(path) is closed")
    default:
      PerdureError(.storageFailed, "the store \(path) could not be used", cause: text)
    }
  }

  /// Returns the error for a store whose file was moved away while it was open.
  package static func moved(path: String) -> PerdureError {
    PerdureError(
      .foreignWriter,
      "the store file \(path) was moved or replaced while it was open",
      hint: "open the store again"
    )
  }

  private var reason: String {
    systemError == 0 ? text : unsafe String(cString: strerror(systemError))
  }

  private func full(_ path: String) -> PerdureError {
    PerdureError(
      .storeUnwritable,
      "the store \(path) cannot grow",
      hint: "free space on its file system; nothing that was committed is lost",
      cause: reason
    )
  }

  private func readOnly(_ path: String) -> PerdureError {
    PerdureError(
      .storeUnwritable,
      "the store \(path) is read-only",
      hint: "make the file and its folder writable, or choose another path",
      cause: reason
    )
  }

  private func cannotOpen(_ path: String) -> PerdureError {
    switch systemError {
    case EROFS: readOnly(path)
    case EACCES, EPERM:
      PerdureError(
        .storeUnwritable,
        "the store \(path) may not be opened",
        hint: "give yourself the right to read and write the file and its folder",
        cause: reason
      )
    default:
      PerdureError(
        .storeUnreadable,
        "the store \(path) cannot be opened",
        hint: "check that the path and its folder exist and may be read",
        cause: reason
      )
    }
  }

  private func inputOutput(_ path: String) -> PerdureError {
    switch systemError {
    case ENOSPC, EDQUOT, EFBIG: full(path)
    case EACCES, EPERM, EROFS: readOnly(path)
    default:
      PerdureError(
        .storageFailed,
        "the disk failed under the store \(path)",
        hint: "check the disk and the system log, then open the store again",
        cause: reason
      )
    }
  }
}
