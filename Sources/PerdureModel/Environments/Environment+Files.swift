/// What follows from the operations of an environment.
extension Environment {
  /// Returns the parts put together, as an absolute path; a later absolute part begins anew.
  public func joinPath(_ parts: [String]) throws(FileError) -> String {
    var path = cwd
    for part in parts where !part.isEmpty {
      path = part.utf8.first == UInt8(ascii: "/") ? part : "\(path)/\(part)"
    }
    return try absolutePath(path)
  }

  /// Opens a regular file, following links.
  public func openFile(_ path: String) async throws(FileError) -> any FileReader {
    try await openFile(path, noFollow: false)
  }

  /// Lets a file have exactly these bytes.
  public func writeFile(_ path: String, _ bytes: [UInt8]) async throws(FileError) {
    try await writeFile(path, bytes, expecting: nil)
  }

  /// Lets a file have exactly this text, as UTF-8.
  public func writeFile(_ path: String, _ text: String) async throws(FileError) {
    try await writeFile(path, Array(text.utf8), expecting: nil)
  }

  /// Creates a folder and those above it.
  public func createFolder(_ path: String) async throws(FileError) {
    try await createFolder(path, recursive: true)
  }

  /// Removes a file, a link or an empty folder.
  public func remove(_ path: String) async throws(FileError) {
    try await remove(path, recursive: false, force: false)
  }

  /// Whether there is something at a path; a link counts, also one that leads nowhere.
  public func exists(_ path: String) async throws(FileError) -> Bool {
    do {
      _ = try await fileInfo(path)
      return true
    } catch {
      if error.code == .notFound { return false }
      throw error
    }
  }

  /// Returns a whole file; throws `tooLarge` beyond `limit` bytes, however large it said it is.
  public func readBinaryFile(
    _ path: String,
    limit: Int = 1 << 30
  ) async throws(FileError) -> [UInt8] {
    let reader = try await openFile(path, noFollow: false)
    do {
      let bytes = try await reader.readAll(path, limit: limit)
      await reader.close()
      return bytes
    } catch {
      await reader.close()
      throw error
    }
  }

  /// Returns a whole file as UTF-8; what is none becomes U+FFFD.
  public func readTextFile(
    _ path: String,
    limit: Int = 1 << 30
  ) async throws(FileError) -> String {
    String(decoding: try await readBinaryFile(path, limit: limit), as: UTF8.self)
  }

  /// Opens a file for its lines.
  public func openTextLineReader(_ path: String) async throws(FileError) -> TextLineReader {
    TextLineReader(try await openFile(path, noFollow: false))
  }

  /// Returns the first lines of a file; none for a number below 1.
  public func readTextLines(_ path: String, maxLines: Int) async throws(FileError) -> [String] {
    let reader = try await openTextLineReader(path)
    var lines: [String] = []
    do {
      while lines.count < maxLines, let line = try await reader.readLine() {
        lines.append(line.text)
      }
      await reader.close()
      return lines
    } catch {
      await reader.close()
      throw error
    }
  }

  /// Returns the entries of a folder in the order of the file system.
  public func listFolder(_ path: String) async throws(FileError) -> [FileInfo] {
    let reader = try await openFolder(path)
    var entries: [FileInfo] = []
    do {
      while true {
        let page = try await reader.next(512)
        entries += page.entries
        if page.isLast { break }
      }
      await reader.close()
      return entries
    } catch {
      await reader.close()
      throw error
    }
  }
}

extension FileReader {
  /// Finds lines in one pass over `read`, a piece at a time.
  public func scanLines(from start: Int, to end: Int?) async throws(FileError) -> LineScan {
    var scanner = try LineScanner(from: start, to: end)
    var offset: Int64 = 0
    while true {
      let piece = try await read(offset: offset, length: 1 << 18)
      if piece.isEmpty { return scanner.finish() }
      scanner.take(piece)
      offset += Int64(piece.count)
    }
  }

  /// Returns everything up to the end, as far as it is then; throws `tooLarge` beyond `limit` bytes.
  func readAll(_ path: String, limit: Int) async throws(FileError) -> [UInt8] {
    var bytes: [UInt8] = []
    while true {
      let piece = try await read(offset: Int64(bytes.count), length: 1 << 20)
      if piece.isEmpty { return bytes }
      bytes += piece
      guard bytes.count <= limit else {
        throw FileError(
          .invalid,
          "the file \(path.quotedForMessage) has more than \(limit) bytes",
          path: path,
          reason: .tooLarge,
          hint: "read a part of it"
        )
      }
    }
  }
}
