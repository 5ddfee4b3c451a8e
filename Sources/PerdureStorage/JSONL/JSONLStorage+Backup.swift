package import PerdureModel

extension JSONLStorage {
  /// Copies the store in the folder at `path` as it is at one moment, while its owner goes on, into
  /// a folder that is published by the caller; returns what is damaged in it, if something is.
  ///
  /// `main.jsonl` is read first: whatever its complete lines name was written before them, so the
  /// files that are read later hold at least that. What they hold beyond it belongs to commits that
  /// are not in the copy, and is cut off there as after a crash.
  package static func backup(
    path: String,
    to destination: Destination
  ) async throws -> PerdureError? {
    let path = StorePath.resolved(path)
    try StorePath.checkFolder(path, mayBeAbsent: false)
    let thread = try StoreThread<JSONLJournal>()
    do {
      let damage = try await thread.perform { try FolderCopy(path, destination).run() }
      await thread.stop()
      return damage
    } catch {
      await thread.stop()
      throw error
    }
  }
}

/// One attempt after another to copy a folder that somebody writes.
private struct FolderCopy {
  private let errors: JSONLErrors
  private let source: FolderFiles
  private let destination: Destination

  init(_ path: String, _ destination: Destination) throws {
    errors = JSONLErrors(path: path)
    source = try JSONLStorage.folder(path, errors, creates: false)
    try JSONLStorage.requireStore(source, errors, mayBeEmpty: false)
    self.destination = destination
  }

  func run() throws -> PerdureError? {
    // While it is shared, its owner removes and rewrites nothing.
    source.share()
    defer { source.release() }
    var damage: PerdureError?
    for _ in 0..<20 {
      let before = mark
      let copy = try copyAll()
      damage = nil
      do {
        var recovery = JSONLRecovery(copy, errors, repairs: true)
        _ = try recovery.run()
      } catch let error as PerdureError {
        damage = error
      }
      // An owner that does not know of sharing may have removed what was not read yet.
      if damage == nil || before == mark { return try flush(copy, damage) }
      destination.clear()
    }
    return damage
  }

  private var mark: FileMark? { try? source.mark(JSONLNames.main) }

  private func copyAll() throws -> FolderFiles {
    let names: [String]
    do {
      names = try source.names()
    } catch {
      throw errors.opening(error)
    }
    let copy: FolderFiles
    do {
      copy = try FolderFiles(at: destination.partial, creates: true)
    } catch {
      throw Destination.error(error, destination.path)
    }
    try copyFile(JSONLNames.main, to: copy)
    // Names that came after main was read belong to later commits.
    for name in names where name == JSONLNames.extras || Sidecar(name: name) != nil {
      try copyFile(name, to: copy)
    }
    return copy
  }

  private func copyFile(_ name: String, to copy: FolderFiles) throws {
    let bytes: [UInt8]?
    do {
      bytes = try source.read(name, from: 0)
    } catch {
      throw errors.opening(error, name)
    }
    do {
      if let bytes { try copy.write(bytes, to: name) }
    } catch {
      throw Destination.error(error, destination.path)
    }
  }

  private func flush(_ copy: FolderFiles, _ damage: PerdureError?) throws -> PerdureError? {
    do {
      for name in try copy.names() { try copy.flush(name) }
      try copy.flushNames()
    } catch {
      throw Destination.error(error, destination.path)
    }
    return damage
  }
}
