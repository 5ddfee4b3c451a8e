import CPerdureLinux

/// The files of a folder of this machine.
///
/// Bytes pass in words through texts that each thread has of its own, so that no pointer is needed;
/// nothing here suspends.
package final class FolderFiles: StoreFiles {
  private let path: String
  private let folder: Int32

  /// Opens the folder at `path`; `creates` allows it to be missing below an existing one.
  package init(at path: String, creates: Bool) throws(FileFailure) {
    self.path = path
    if creates {
      Self.put(path)
      try Self.check(Int64(perdure_folder_create()))
    }
    Self.put(path)
    folder = try Int32(Self.check(Int64(perdure_folder_open())))
  }

  deinit { perdure_file_close(folder) }

  package func names() throws(FileFailure) -> [String] {
    let count = try Self.check(perdure_folder_names(folder))
    return Self.take(count).split(separator: UInt8(ascii: "/")).map {
      String(decoding: $0, as: UTF8.self)
    }
  }

  package func read(_ name: String, from offset: Int) throws(FileFailure) -> [UInt8]? {
    try existing(name) { (file) throws(FileFailure) -> [UInt8] in
      let count = try Self.check(perdure_file_read(file, Int64(offset)))
      defer { perdure_text_forget() }
      return Self.take(count)
    }
  }

  package func read(
    _ name: String,
    from offset: Int,
    count: Int
  ) throws(FileFailure) -> [UInt8]? {
    try existing(name) { (file) throws(FileFailure) -> [UInt8] in
      let part = perdure_file_read_part(file, Int64(offset), Int64(count))
      let found = try Self.check(part)
      defer { perdure_text_forget() }
      return Self.take(found)
    }
  }

  package func mark(_ name: String) throws(FileFailure) -> FileMark? {
    try existing(name) { (file) throws(FileFailure) -> FileMark in
      let size = try Self.check(perdure_file_size(file))
      return FileMark(size: Int(size), number: try Self.check(perdure_file_number(file)))
    }
  }

  package func append(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try write(bytes, to: name, PERDURE_FILE_APPEND)
  }

  package func write(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try write(bytes, to: name, PERDURE_FILE_REPLACE)
  }

  private func write(
    _ bytes: [UInt8],
    to name: String,
    _ mode: perdure_file_mode
  ) throws(FileFailure) {
    let file = try open(name, mode)
    defer { perdure_file_close(file) }
    Self.put(bytes)
    try Self.check(Int64(perdure_file_write(file)))
  }

  package func flush(_ name: String) throws(FileFailure) {
    let file = try open(name, PERDURE_FILE_READ)
    defer { perdure_file_close(file) }
    try Self.check(Int64(perdure_file_flush(file)))
  }

  package func flushNames() throws(FileFailure) {
    try Self.check(Int64(perdure_file_flush(folder)))
  }

  package func rename(_ name: String, to new: String) throws(FileFailure) {
    Self.put(name + "/" + new)
    try Self.check(Int64(perdure_file_rename(folder)))
  }

  package func truncate(_ name: String, to size: Int) throws(FileFailure) {
    let file = try open(name, PERDURE_FILE_APPEND)
    defer { perdure_file_close(file) }
    try Self.check(Int64(perdure_file_truncate(file, Int64(size))))
  }

  package func remove(_ name: String) throws(FileFailure) {
    Self.put(name)
    let code = perdure_file_remove(folder)
    if code != -Self.isMissing { try Self.check(Int64(code)) }
  }

  // A file system without locks has readers that may have to read again.
  package func share() { _ = perdure_folder_share(folder) }

  package func exclude() -> Bool { perdure_folder_exclude(folder) == 0 }

  package func release() { perdure_folder_release(folder) }

  package func areInPlace() -> Bool {
    Self.put(path)
    return perdure_folder_is_at(folder) == 1
  }

  // MARK: Single files

  private static let isMissing: Int32 = 2

  private func open(_ name: String, _ mode: perdure_file_mode) throws(FileFailure) -> Int32 {
    Self.put(name)
    return try Int32(Self.check(Int64(perdure_file_open(folder, Int32(mode.rawValue)))))
  }

  private func existing<Value>(
    _ name: String,
    _ body: (Int32) throws(FileFailure) -> Value
  ) throws(FileFailure) -> Value? {
    Self.put(name)
    let file = perdure_file_open(folder, Int32(PERDURE_FILE_READ.rawValue))
    if file == -Self.isMissing { return nil }
    try Self.check(Int64(file))
    defer { perdure_file_close(file) }
    return try body(file)
  }

  // MARK: Words

  @discardableResult
  static func check(_ result: Int64) throws(FileFailure) -> Int64 {
    guard result < 0 else { return result }
    let code = Int32(clamping: -result)
    let count = perdure_text_error(code)
    throw FileFailure(code: code, String(decoding: take(count), as: UTF8.self))
  }

  static func put(_ text: String) { put(Array(text.utf8)) }

  static func put(_ bytes: [UInt8]) {
    let bytes = bytes.span
    var index = 0
    while index < bytes.count {
      var word: UInt64 = 0
      let count = min(8, bytes.count - index)
      for offset in 0..<count { word |= UInt64(bytes[index + offset]) << UInt64(8 * offset) }
      perdure_text_put(word, Int32(count))
      index += count
    }
  }

  static func take(_ count: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Int(max(0, count)))
    var index: Int64 = 0
    while index < count {
      var word = perdure_text_word(index)
      for _ in 0..<min(8, count - index) {
        bytes.append(UInt8(truncatingIfNeeded: word))
        word >>= 8
      }
      index += 8
    }
    return bytes
  }
}
