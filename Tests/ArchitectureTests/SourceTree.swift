import Foundation
import Testing

/// The package's own sources, read as text.
enum SourceTree {
  static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// One Swift file.
  struct File: Sendable, CustomTestStringConvertible {
    /// The path below `Sources`.
    var path: String
    /// The lines without comments and the contents of strings.
    var code: [String]

    var target: String { path.split(separator: "/").first.map(String.init) ?? "" }
    var testDescription: String { path }
  }

  static func targets() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path)
      .sorted()
  }

  static func manifest() throws -> String {
    try String(contentsOf: root.appending(path: "Package.swift"), encoding: .utf8)
  }

  /// All Swift files of the package, read once.
  static let files = Result { try readFiles() }

  private static func readFiles() throws -> [File] {
    let sources = root.appending(path: "Sources")
    let paths = try FileManager.default.subpathsOfDirectory(atPath: sources.path)
    return try paths.filter { $0.hasSuffix(".swift") }.sorted().map { path in
      let text = try String(contentsOf: sources.appending(path: path), encoding: .utf8)
      return File(path: path, code: code(of: text))
    }
  }

  /// The lines of `text` with comments and strings blanked, which is enough for our own style.
  private static func code(of text: String) -> [String] {
    var isBlock = false
    return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      if line.contains("\"\"\"") {
        isBlock.toggle()
        return ""
      }
      if isBlock { return "" }
      guard line.utf8.contains(UInt8(ascii: "\"")) || line.contains("//") else {
        return String(line)
      }
      return String(line)
        .replacing(/"(?:[^"\\]|\\.)*"/, with: "\"\"")
        .replacing(/\/\/.*/, with: "")
    }
  }
}
