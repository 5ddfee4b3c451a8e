import CPerdureLinux
package import PerdureModel

/// A file or folder that gets its name once it is complete.
///
/// Until then it is called `NAME.partial`, and whoever makes it holds the lock `NAME.partial.lock`:
/// what a killed process left is replaced by the next one. Both lie in the folder of the name, so
/// that the last step is one renaming.
package final class Destination: Sendable {
  package let path: String
  /// What it is called until it is complete.
  package let partial: String
  private let lock: StoreLock

  /// Claims a path, which must name nothing; throws `invalidInput` if it does.
  package init(_ path: String) throws {
    self.path = Self.resolved(path)
    partial = self.path + ".partial"
    // What belonged to a database of that name would be taken for a part of the new one.
    for suffix in ["", "-wal", "-journal"] { try Self.requireFree(self.path + suffix) }
    do {
      lock = try StoreLock(store: self.path, file: partial + ".lock")
    } catch let error as PerdureError where error.code == .storeUnwritable {
      throw PerdureError(
        .storeUnwritable,
        "\(self.path) cannot be written",
        hint: "check that its folder exists and is writable",
        cause: error.cause
      )
    }
    do {
      try Self.remove(partial)
    } catch {
      throw Self.error(error, partial)
    }
  }

  /// Returns the path without symbolic links and without slashes at its end.
  package static func resolved(_ path: String) -> String {
    var name = path
    while name.count > 1, name.hasSuffix("/") { name.removeLast() }
    return StorePath.resolved(name)
  }

  private static func requireFree(_ path: String) throws {
    FolderFiles.put(path)
    guard perdure_path_is_taken() == 1 else { return }
    throw taken(path)
  }

  private static func taken(_ path: String) -> PerdureError {
    PerdureError(
      .invalidInput,
      "\(path) exists already",
      hint: "give a path that names nothing yet; nothing is overwritten"
    )
  }

  /// Gives it its name, which lasts from here on.
  package func publish() throws {
    do {
      FolderFiles.put(Array(partial.utf8) + [0] + Array(path.utf8))
      try FolderFiles.check(Int64(perdure_path_publish()))
    } catch {
      throw error.code == 17 ? Self.taken(path) : Self.error(error, path)
    }
    forgetLock()
  }

  /// Removes what there is of it, to begin again.
  func clear() { try? Self.remove(partial) }

  /// Removes what there is of it, and gives the path up.
  package func abandon() {
    try? Self.remove(partial)
    forgetLock()
  }

  // Nobody waits for this lock, so its file may go while it is held.
  private func forgetLock() {
    FolderFiles.put(partial + ".lock")
    _ = perdure_path_remove()
  }

  /// Removes a file, or a folder with the files in it.
  private static func remove(_ path: String) throws(FileFailure) {
    if HostFolder.exists(path) {
      let folder = try FolderFiles(at: path, creates: false)
      for name in try folder.names() { try folder.remove(name) }
    }
    for suffix in ["-journal", "-wal", "-shm", ""] {
      FolderFiles.put(path + suffix)
      try FolderFiles.check(Int64(perdure_path_remove()))
    }
  }

  /// Makes the error of a file that cannot be written.
  package static func error(_ failure: FileFailure, _ path: String) -> PerdureError {
    let isFull = [28, 122, 27].contains(failure.code)
    return PerdureError(
      .storeUnwritable,
      "\(path) cannot be written",
      hint: isFull
        ? "free space on its file system" : "check that its folder exists and is writable",
      cause: failure.description
    )
  }
}

/// Folders of this machine.
enum HostFolder {
  static func exists(_ path: String) -> Bool {
    FolderFiles.put(path)
    let folder = perdure_folder_open()
    guard folder >= 0 else { return false }
    perdure_file_close(folder)
    return true
  }

  static func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  static func name(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
  }

  /// When a file was last written, in nanoseconds since 1970; `nil` if there is none.
  static func stamp(_ path: String) -> Int64? {
    FolderFiles.put(path)
    let stamp = perdure_path_stamp()
    return stamp < 0 ? nil : stamp
  }
}

/// A file of any kind that takes its name once it is complete.
package final class NewFile {
  private let destination: Destination
  private let file: StreamFile

  /// Begins a file at a path that must name nothing.
  package init(_ path: String) throws {
    destination = try Destination(path)
    do {
      file = try StreamFile.create(destination.partial)
    } catch {
      destination.abandon()
      throw Destination.error(error, path)
    }
  }

  /// Writes further bytes.
  package func write(_ bytes: [UInt8]) throws {
    do {
      try file.write(bytes)
    } catch {
      throw Destination.error(error, destination.path)
    }
  }

  /// Gives the file its name, once all of it is on disk.
  package func publish() throws {
    do {
      try file.flush()
    } catch {
      throw Destination.error(error, destination.path)
    }
    try destination.publish()
  }

  /// Leaves nothing behind.
  package func abandon() { destination.abandon() }
}
