import PerdureModel
import PerdureValue

/// Understands the paths that models write.
struct ToolPaths: Sendable {
  let env: any Environment
  let staysInWorkingFolder: Bool

  init(_ env: any Environment, _ options: CodingToolOptions) {
    self.env = env
    staysInWorkingFolder = options.staysInWorkingFolder
  }

  /// Returns the absolute path that an argument means; looks whether it may be used.
  func resolve(_ argument: String) async throws -> String {
    let path = try env.absolutePath(Self.cleaned(argument))
    try await check(path)
    return path
  }

  /// Without an `@` in front, and with plain spaces.
  static func cleaned(_ argument: String) -> String {
    var text = argument
    if text.hasPrefix("@") { text.removeFirst() }
    var scalars = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      let isSpace = scalar.value != 0x20 && scalar.properties.generalCategory == .spaceSeparator
      scalars.append(isSpace ? " " : scalar)
    }
    return String(scalars)
  }

  private func check(_ path: String) async throws {
    guard staysInWorkingFolder, !KeptOutputs.shared.contains(path, of: env.id) else { return }
    try Self.requireInside(path, env.cwd, path)
    let root = try await env.canonicalPath(env.cwd)
    var existing = path
    while true {
      do {
        try Self.requireInside(try await env.canonicalPath(existing), root, path)
        return
      } catch let error as FileError where error.code == .notFound && existing != "/" {
        existing = try env.absolutePath(existing + "/..")
      }
    }
  }

  private static func requireInside(_ path: String, _ folder: String, _ shown: String) throws {
    guard folder != "/", path != folder, !path.utf8.starts(with: "\(folder)/".utf8) else { return }
    throw FileError(
      .permissionDenied,
      "\(shown.quotedForMessage) is outside the working folder",
      path: shown,
      hint: "work with files below \(folder.quotedForMessage)"
    )
  }

  /// Opens a file by the path that was given, or else by one that only looks different.
  func openFile(_ argument: String) async throws -> (path: String, reader: any FileReader) {
    let path = try await resolve(argument)
    // A name may really begin with an @ or hold another space.
    let literal = try env.absolutePath(argument)
    for candidate in (literal == path ? [] : [literal]) + Self.variants(of: path) {
      do {
        try await check(candidate)
        return (candidate, try await env.openFile(candidate))
      } catch let error as FileError where error.code == .notFound {
        continue
      }
    }
    throw FileError(
      .notFound,
      "\(path.quotedForMessage) does not exist",
      path: path,
      hint: await suggestion(for: path)
    )
  }

  /// The path itself, and what file systems and screenshots make of names like it.
  static func variants(of path: String) -> [String] {
    let narrow = path.replacing(" AM.", with: "\u{202F}AM.").replacing(" PM.", with: "\u{202F}PM.")
    let decomposed = Compatibility.decomposed(path)
    let curly = path.replacing("'", with: "\u{2019}")
    let all = [path, narrow, decomposed, curly, decomposed.replacing("'", with: "\u{2019}")]
    var seen: Set<[UInt8]> = []
    return all.filter { seen.insert(Array($0.utf8)).inserted }
  }

  /// Names in the same folder that somebody may have meant.
  private func suggestion(for path: String) async -> String? {
    guard let slash = path.utf8.lastIndex(of: 0x2F) else { return nil }
    let wanted = String(path[path.index(after: slash)...]).lowercased()
    let folder = slash == path.startIndex ? "/" : String(path[..<slash])
    guard !wanted.isEmpty, let reader = try? await env.openFolder(folder) else { return nil }
    let page = try? await reader.next(2_000)
    await reader.close()
    let near = (page?.entries ?? []).compactMap { entry -> (Int, String)? in
      let distance = Self.distance(wanted, entry.name.lowercased())
      return distance <= max(1, wanted.utf8.count / 4) ? (distance, entry.name) : nil
    }
    let names = near.sorted { $0.0 == $1.0 ? $0.1 < $1.1 : $0.0 < $1.0 }.prefix(3)
    guard !names.isEmpty else { return nil }
    return "did you mean \(names.map { $0.1.quotedForMessage }.joined(separator: " or "))?"
  }

  /// How many bytes differ, as an edit distance.
  private static func distance(_ left: String, _ right: String) -> Int {
    let (left, right) = (Array(left.utf8), Array(right.utf8))
    guard abs(left.count - right.count) <= 8, left.count < 256 else { return .max }
    var row = Array(0...right.count)
    for (index, byte) in left.enumerated() {
      var diagonal = row[0]
      row[0] = index + 1
      for (place, other) in right.enumerated() {
        let next = min(row[place] + 1, row[place + 1] + 1, diagonal + (byte == other ? 0 : 1))
        diagonal = row[place + 1]
        row[place + 1] = next
      }
    }
    return row[right.count]
  }
}
