import PerdureModel

/// A path as an environment sees it: names below its root, without `.`, `..` and empty ones.
struct VirtualPath: Hashable, Sendable {
  private(set) var names: [String]

  /// The root itself.
  static let root = VirtualPath(names: [])

  init(names: [String]) { self.names = names }

  /// Reads a path; a relative one begins at `base`, and `..` never leads above the root.
  ///
  /// Nothing is looked up: a link counts as the name that it has.
  init(_ text: String, from base: VirtualPath) throws(FileError) {
    guard !text.utf8.contains(0) else {
      throw FileError(
        .invalid,
        "the path \(text.quotedForMessage) holds a zero byte",
        path: text,
        hint: "give a path without it"
      )
    }
    guard text.utf8.count <= Self.longest else {
      throw FileError(.invalid, "a path of \(text.utf8.count) bytes is too long", path: nil)
    }
    names = text.utf8.first == Self.slash ? [] : base.names
    for name in text.utf8.split(separator: Self.slash) {
      switch String(decoding: name, as: UTF8.self) {
      case ".": break
      case "..": names = names.dropLast()
      case let name: names.append(name)
      }
    }
  }

  private static let slash = UInt8(ascii: "/")
  private static let longest = 4_095

  /// From the root on, as people write it.
  var text: String { "/" + names.joined(separator: "/") }

  /// Without the slash at its beginning, as it is looked up below the root.
  var below: String { names.joined(separator: "/") }

  /// The last name; absent for the root.
  var name: String? { names.last }

  /// The folder that holds it; the root holds itself.
  var parent: VirtualPath { VirtualPath(names: names.dropLast()) }

  /// Something in this folder.
  func appending(_ name: String) -> VirtualPath { VirtualPath(names: names + [name]) }
}
