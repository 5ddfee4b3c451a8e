import PerdureModel

extension SQLiteStorage {
  /// Copies the store at `path` as it is at one moment, while its owner goes on, into a file that
  /// is published by the caller.
  ///
  /// SQLite writes the copy anew row by row within one read transaction. Unlike a copy of pages it
  /// never begins again when somebody writes meanwhile, takes along nothing that was deleted, and
  /// reads every row, so that damage is noticed now and not when the copy is needed.
  package static func backup(path: String, to destination: Destination) async throws {
    let path = StorePath.resolved(path)
    for _ in 0..<5 {
      let watch = QuietFile(path)
      let store = try await open(path: path, readOnly: true)
      do {
        try StorePath.create(destination.partial)
        let target = SQLText.quoted(destination.partial)
        try await store.inspect { try $0.execute("VACUUM INTO \(target)") }
      } catch {
        await store.close()
        throw error
      }
      await store.close()
      guard !watch.wasDisturbed else {
        destination.clear()
        continue
      }
      return try flush(destination)
    }
    throw PerdureError(
      .storeInUse,
      "the store \(path) was opened again and again while it was copied",
      hint: "try again"
    )
  }

  private static func flush(_ destination: Destination) throws {
    do {
      let folder = try FolderFiles(at: HostFolder.parent(of: destination.partial), creates: false)
      try folder.flush(HostFolder.name(of: destination.partial))
    } catch {
      throw Destination.error(error, destination.path)
    }
  }
}

/// Whether nobody began to write a database that nobody had open.
///
/// Such a file is read without locks, so a writer that comes along is not kept waiting and may
/// change what is being read.
package struct QuietFile {
  private let path: String
  private let hadLog: Bool
  private let stamp: Int64?

  /// Looks at the file of a store before it is opened.
  package init(_ path: String) {
    self.path = StorePath.resolved(path)
    hadLog = StorePath.exists(self.path + "-wal")
    stamp = HostFolder.stamp(self.path)
  }

  /// Whether what was read since may be of two moments.
  package var wasDisturbed: Bool {
    !hadLog && (StorePath.exists(path + "-wal") || HostFolder.stamp(path) != stamp)
  }
}

/// Text in statements.
enum SQLText {
  static func quoted(_ text: String) -> String {
    "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
  }
}
