import PerdureModel
import PerdureValue

/// The files below a folder that searches look at, within bounds.
struct FileWalk: Sendable {
  private static let mostEntries = 50_000
  private static let mostBytes = 8 << 20
  private static let mostFolders = 10_000

  var listing: FileListing
  /// The folder to which the paths are relative.
  let folder: String

  /// Lists what git does not ignore, where the environment can tell; else everything but `.git`.
  init(_ env: any Environment, _ folder: String) async throws {
    self.folder = folder
    let bounds = ListingBounds(maxEntries: Self.mostEntries, maxBytes: Self.mostBytes)
    do {
      listing = try await env.listFiles(folder, bounds)
    } catch {
      guard error.code == .notSupported else { throw error }
      listing = FileListing(entries: [], truncated: false)
      var folders = 0
      try await walk(env, folder, "", &folders)
    }
  }

  private mutating func walk(
    _ env: any Environment,
    _ folder: String,
    _ prefix: String,
    _ folders: inout Int
  ) async throws {
    folders += 1
    guard folders <= Self.mostFolders else {
      listing.truncated = true
      return
    }
    let entries = try await entries(env, folder).sorted {
      $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
    }
    for entry in entries where entry.name != ".git" {
      guard listing.entries.count < Self.mostEntries else {
        listing.truncated = true
        return
      }
      let path = prefix + entry.name
      listing.entries.append(FileListing.Entry(path: path, kind: entry.kind))
      guard entry.kind == .directory else { continue }
      try await walk(env, "\(folder)/\(entry.name)", path + "/", &folders)
    }
  }

  /// The entries of a folder, or as many of them as could be listed.
  private mutating func entries(
    _ env: any Environment,
    _ folder: String
  ) async throws -> [FileInfo] {
    let reader = try await env.openFolder(folder)
    do {
      var entries: [FileInfo] = []
      while entries.count < Self.mostEntries {
        let page = try await reader.next(1_000)
        entries += page.entries
        if page.isLast {
          await reader.close()
          return entries
        }
      }
      listing.truncated = true
      await reader.close()
      return entries
    } catch {
      await reader.close()
      throw error
    }
  }

  /// What is said if there was more than the bounds allow.
  var remark: ToolDiagnostic? {
    guard listing.truncated else { return nil }
    return ToolDiagnostic(
      .warn,
      "Only the first \(listing.entries.count) files and folders were looked at. Search in a folder"
        + " further down.",
      code: "truncated"
    )
  }
}

/// A pattern for paths as tools take it: alternatives in braces, and names at any depth.
struct PathFilter: Sendable {
  private let patterns: [GlobPattern]

  private static let longest = 1_000

  init(_ text: String) throws {
    guard text.utf8.count <= Self.longest else {
      throw PerdureError(
        .invalidInput,
        "the pattern for paths has \(text.utf8.count) bytes",
        hint: "give at most \(Self.longest)"
      )
    }
    let trimmed = text.hasPrefix("./") ? String(text.dropFirst(2)) : text
    // A pattern without a slash is about names, wherever they are.
    let anywhere = trimmed.contains("/") ? trimmed : "**/\(trimmed)"
    patterns = GlobPattern.expanded(anywhere).map { GlobPattern($0) }
  }

  func fits(_ path: String) -> Bool { patterns.contains { $0.fits(path) } }

  /// Whether a pattern has a `[` that no `]` closes, which then stands for itself.
  static func hasOpenSet(_ text: String) -> Bool {
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\\") { _ = rest.popFirst() }
      guard byte == UInt8(ascii: "[") else { continue }
      if let first = rest.first, "!^".utf8.contains(first) { rest.removeFirst() }
      // The first character of a set is never its end.
      guard let end = rest.dropFirst().firstIndex(of: UInt8(ascii: "]")) else { return true }
      rest = rest[(end + 1)...]
    }
    return false
  }
}
