import Glibc
import PerdureModel

extension FileError {
  /// Puts what the kernel said into words; only the environment's own paths are named.
  init(_ failure: SystemFailure, _ path: VirtualPath, _ doing: String = "opened") {
    let shown = path.text.quotedForMessage
    func error(
      _ code: Code,
      _ message: String,
      reason: Reason? = nil,
      hint: String? = nil
    ) -> FileError {
      FileError(code, message, path: path.text, reason: reason, hint: hint)
    }
    self =
      switch failure.code {
      case ENOENT: error(.notFound, "\(shown) does not exist")
      case EACCES, EPERM: error(.permissionDenied, "\(shown) may not be \(doing)")
      case EROFS:
        error(.permissionDenied, "\(shown) cannot be \(doing): its file system is read-only")
      case EXDEV: .outside(path)
      case ELOOP:
        error(.permissionDenied, "\(shown) leads through a link that may not be followed")
      case ENOTDIR: error(.notDirectory, "\(shown) is no folder, or leads through something else")
      case EISDIR: error(.isDirectory, "\(shown) is a folder")
      case ENAMETOOLONG: error(.invalid, "\(shown) is too long")
      case EEXIST: error(.invalid, "\(shown) exists already")
      case ENOTEMPTY:
        error(.invalid, "the folder \(shown) is not empty", hint: "remove it recursively")
      case EINVAL: error(.invalid, "\(shown) cannot be \(doing)")
      case ENOSPC, EDQUOT:
        error(
          .unknown,
          "\(shown) cannot be \(doing): the disk is full",
          reason: .noSpace,
          hint: "remove what is not needed"
        )
      case EFBIG: error(.invalid, "\(shown) would become too large", reason: .tooLarge)
      case EBUSY, ETXTBSY: error(.unknown, "\(shown) is in use", reason: .busy, hint: "try again")
      default: error(.unknown, "\(shown) cannot be \(doing): \(failure.text)")
      }
  }

  static func outside(_ path: VirtualPath) -> FileError {
    FileError(
      .permissionDenied,
      "\(path.text.quotedForMessage) leads outside the environment",
      path: path.text,
      hint: "name the file by a path that stays inside"
    )
  }

  static func notRegular(_ path: VirtualPath) -> FileError {
    FileError(
      .invalid,
      "\(path.text.quotedForMessage) is neither a file nor a folder",
      path: path.text,
      hint: "pipes, sockets and devices are not served"
    )
  }

  static func conflict(_ path: VirtualPath) -> FileError {
    FileError(
      .invalid,
      "the file \(path.text.quotedForMessage) was changed by somebody else meanwhile",
      path: path.text,
      reason: .conflict,
      hint: "read it again"
    )
  }
}

/// Runs calls to the kernel, whose failures become those of a path.
func asking<Value>(
  _ path: VirtualPath,
  _ doing: String = "opened",
  _ body: () throws(SystemFailure) -> Value
) throws(FileError) -> Value {
  do {
    return try body()
  } catch {
    throw FileError(error, path, doing)
  }
}
