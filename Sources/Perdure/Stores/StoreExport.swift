import PerdureModel
import PerdureStorage
import PerdureValue

/// Writes all that a store holds as JSON lines.
package enum StoreExport {
  /// Writes the store as it is at one moment, in pages; returns how many lines that were.
  ///
  /// `write` gets bytes again and again and may wait; it returns `false` when nobody wants more.
  package static func run(
    _ site: StoreSite,
    write: ([UInt8]) throws -> Bool
  ) async throws -> Int {
    switch site.format {
    case .jsonl:
      let snapshot = try await JSONLStorage.openSnapshot(path: site.path)
      return try await run(snapshot, write: write)
    case .sqlite:
      return try await exportSQLite(site.path, write)
    }
  }

  private static func exportSQLite(
    _ path: String,
    _ write: ([UInt8]) throws -> Bool
  ) async throws -> Int {
    let watch = QuietFile(path)
    let snapshot = try await SQLiteStorage.openSnapshot(path: path)
    do {
      let count = try await run(snapshot, write: write)
      await snapshot.close()
      guard !watch.wasDisturbed else {
        throw PerdureError(
          .storeInUse,
          "the store \(path) was opened for writing while it was exported",
          hint: "export it again"
        )
      }
      return count
    } catch {
      await snapshot.close()
      throw error
    }
  }

  /// Writes what a snapshot holds to a new file, which has its name once it is complete.
  package static func run(_ site: StoreSite, to path: String) async throws -> Int {
    try site.requireOutside(path)
    let file = try NewFile(path)
    do {
      let count = try await run(site) {
        try file.write($0)
        return true
      }
      try file.publish()
      return count
    } catch {
      file.abandon()
      throw error
    }
  }

  /// Writes what a snapshot holds; returns how many lines that were.
  package static func run(
    _ snapshot: some StoreSnapshot,
    write: ([UInt8]) throws -> Bool
  ) async throws -> Int {
    var buffer: [UInt8] = []
    var counts: [StoreSection: Int] = [:]
    let digest = try ContentDigest()
    var lines = 1
    func flush() throws -> Bool {
      defer { buffer.removeAll(keepingCapacity: true) }
      try digest.add(buffer)
      return try write(buffer)
    }
    func add(_ line: ExportLine) {
      buffer += line.json.encoded
      buffer.append(UInt8(ascii: "\n"))
    }
    let counters = try await snapshot.counters()
    let header = ExportLine.header(counters)
    do {
      // What no import would take is not begun.
      _ = try ExportLine.header(header.json)
    } catch let error as PerdureError {
      throw PerdureError(
        .storeCorrupt,
        "the counters of the store are damaged",
        hint: "'perdure store check' names everything that is damaged",
        cause: error.cause ?? error.message
      )
    }
    add(header)
    var isWanted = true
    try await snapshot.forEachPage { parts in
      guard isWanted else { return }
      for part in parts {
        add(.part(part))
        counts[part.section, default: 0] += 1
        if buffer.count >= 256 << 10, isWanted { isWanted = try flush() }
      }
      lines += parts.count
    }
    guard isWanted, try flush() else { return lines }
    add(.end(counts: counts, digest: try digest.end()))
    _ = try write(buffer)
    return lines + 1
  }
}
