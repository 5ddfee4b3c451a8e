import CPerdureLinux
import PerdureModel

/// A file that is read or written from its beginning to its end, in parts.
package final class StreamFile {
  private let descriptor: Int32

  private init(_ descriptor: Int32) { self.descriptor = descriptor }

  deinit { perdure_file_close(descriptor) }

  /// Opens a file for reading; throws `invalidInput`.
  package static func open(_ path: String) throws -> StreamFile {
    do {
      FolderFiles.put(path)
      return StreamFile(Int32(try FolderFiles.check(Int64(perdure_stream_open()))))
    } catch {
      throw PerdureError(
        error.code == 2 ? .notFound : .invalidInput,
        error.code == 2 ? "there is no file at \(path)" : "the file \(path) cannot be read",
        hint: "check the path",
        cause: error.code == 2 ? nil : error.description
      )
    }
  }

  /// Creates a file, or empties it.
  static func create(_ path: String) throws(FileFailure) -> StreamFile {
    FolderFiles.put(path)
    return StreamFile(Int32(try FolderFiles.check(Int64(perdure_stream_create()))))
  }

  /// Returns at most `count` further bytes; none at the end.
  package func read(_ count: Int = 256 << 10) throws(FileFailure) -> [UInt8] {
    FolderFiles.take(try FolderFiles.check(perdure_stream_read(descriptor, Int64(count))))
  }

  /// Writes further bytes.
  package func write(_ bytes: [UInt8]) throws(FileFailure) {
    FolderFiles.put(bytes)
    try FolderFiles.check(Int64(perdure_file_write(descriptor)))
  }

  /// Returns once everything is on disk.
  package func flush() throws(FileFailure) {
    try FolderFiles.check(Int64(perdure_file_flush(descriptor)))
  }
}
