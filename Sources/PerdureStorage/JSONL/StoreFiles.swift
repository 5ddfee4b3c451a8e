/// What a JSONL store needs of a file system: the files of one folder, named without a slash.
///
/// A store calls it from one thread at a time, and may wait for the disk in every call.
package protocol StoreFiles: Sendable {
  /// The names of all files.
  func names() throws(FileFailure) -> [String]
  /// Returns the bytes of a file from `offset` on, or `nil` if there is no such file.
  func read(_ name: String, from offset: Int) throws(FileFailure) -> [UInt8]?
  /// Returns at most `count` bytes of a file from `offset` on, fewer only at its end, or `nil` if
  /// there is no such file.
  func read(_ name: String, from offset: Int, count: Int) throws(FileFailure) -> [UInt8]?
  /// Returns what tells a file apart from another of its name, or `nil` if there is none.
  func mark(_ name: String) throws(FileFailure) -> FileMark?
  /// Adds bytes to the end of a file, which is created if it is missing.
  func append(_ bytes: [UInt8], to name: String) throws(FileFailure)
  /// Gives a file new contents; it is created if it is missing.
  func write(_ bytes: [UInt8], to name: String) throws(FileFailure)
  /// Returns once the contents of a file are on disk.
  func flush(_ name: String) throws(FileFailure)
  /// Returns once the names are on disk.
  func flushNames() throws(FileFailure)
  /// Gives a file another name, in place of the file that had it.
  func rename(_ name: String, to new: String) throws(FileFailure)
  /// Cuts a file off behind `size` bytes.
  func truncate(_ name: String, to size: Int) throws(FileFailure)
  /// Removes a file; one that is missing is no failure.
  func remove(_ name: String) throws(FileFailure)
  /// Keeps those that `exclude` readers from doing so until `release`.
  func share()
  /// Keeps readers waiting until `release`; `false` if somebody reads now.
  func exclude() -> Bool
  /// Ends `share` or `exclude`.
  func release()
  /// Whether the path of the store still names this folder.
  func areInPlace() -> Bool
}

/// A file at one moment.
package struct FileMark: Sendable, Equatable {
  package var size: Int
  /// What no other file of the file system has at the same time.
  package var number: Int64

  /// Makes a mark.
  package init(size: Int, number: Int64) {
    self.size = size
    self.number = number
  }
}

/// A call of the file system that failed.
package struct FileFailure: Error, Sendable, CustomStringConvertible {
  /// The error number of the system.
  package var code: Int32
  /// What the system says about it.
  package var description: String

  /// Makes a failure.
  package init(code: Int32, _ description: String) {
    self.code = code
    self.description = description
  }
}
