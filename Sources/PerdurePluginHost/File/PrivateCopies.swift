internal import PerdureModel
import Synchronization

/// Copies of plugin files under names that were never used before.
///
/// The dynamic loader goes by names and inodes: a file that is opened a second time would give the
/// old code with its old state, and one that is overwritten would crash what runs of it.
enum PrivateCopies {
  private struct State {
    var count = 0
    var paths: Set<String> = []
  }

  private static let state = Mutex(State())

  /// Writes a copy of `plugin` to `folder`, checks it and returns its path.
  static func make(
    of bytes: [UInt8],
    id: String,
    digest: String,
    in folder: String
  ) throws(PerdureError) -> (path: String, number: Int) {
    try FileAccess.makePrivateFolder(folder)
    let number = state.withLock { state in
      state.count += 1
      return state.count
    }
    let path = "\(folder)/\(id)-\(digest.prefix(16))-\(FileAccess.processID)-\(number).so"
    state.withLock { _ = $0.paths.insert(path) }
    // Left behind by an earlier process that had the same number.
    FileAccess.remove(path)
    FileAccess.remove(path + ".tmp")
    try FileAccess.write(bytes, to: path, mode: 0o555)
    let copied = try FileAccess.read(path, limit: FileAccess.pluginLimit)
    guard FileAccess.digest(copied) == digest else {
      remove(path)
      throw PerdureError(
        .pluginRefused,
        "the private copy \(path) of plugin \(id) is not what was written",
        hint: "check the disk and who else writes to the folder"
      )
    }
    return (path, number)
  }

  /// Removes a copy that was made here.
  static func remove(_ path: String) {
    FileAccess.remove(path)
    state.withLock { _ = $0.paths.remove(path) }
  }

  /// Removes what processes that are gone left in `folder`; returns how many files.
  static func sweep(_ folder: String) -> Int {
    var removed = 0
    let ours = state.withLock { $0.paths }
    for name in FileAccess.names(in: folder) {
      guard let process = owner(of: name) else { continue }
      let path = "\(folder)/\(name)"
      // A container gives every process the same number, so ours alone proves nothing.
      let isLive =
        process == FileAccess.processID
        ? ours.contains { path.hasPrefix($0) } : FileAccess.processExists(process)
      guard !isLive else { continue }
      FileAccess.remove(path)
      removed += 1
    }
    return removed
  }

  /// The process that made the file, if the name is one of ours.
  private static func owner(of name: String) -> Int32? {
    var stem = name[...]
    if stem.hasSuffix(".tmp") { stem = stem.dropLast(4) }
    guard stem.hasSuffix(".so") else { return nil }
    let parts = stem.dropLast(3).split(separator: "-")
    guard parts.count >= 4, Int32(parts[parts.count - 1]) != nil else { return nil }
    return Int32(parts[parts.count - 2]).flatMap { $0 > 0 ? $0 : nil }
  }
}
