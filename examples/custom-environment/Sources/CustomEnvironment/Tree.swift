import Perdure
import Synchronization

/// A file or a folder in memory.
///
/// `@unchecked Sendable`: its members are read and written only while the lock of its tree is held.
final class Node: @unchecked Sendable {
  /// The content of a file; absent for a folder.
  var bytes: [UInt8]?
  var children: [String: Node] = [:]
  /// Changes with the content.
  var revision = 0

  init(file bytes: [UInt8]?) { self.bytes = bytes }

  var isFolder: Bool { bytes == nil }
}

/// The names of a path, without dots.
struct Path: Equatable, Sendable {
  var names: [String]

  init(_ text: String, from base: Path = Path(names: [])) throws(FileError) {
    guard !text.utf8.contains(0) else { throw FileError(.invalid, "a path holds a zero byte") }
    names = text.hasPrefix("/") ? [] : base.names
    for name in text.split(separator: "/").map(String.init) where name != "." {
      if name == ".." { names = names.dropLast() } else { names.append(name) }
    }
  }

  init(names: [String]) { self.names = names }

  var text: String { "/" + names.joined(separator: "/") }
  var parent: Path { Path(names: names.dropLast()) }

  /// Whether this is `other`, or below it.
  func isWithin(_ other: Path) -> Bool { names.starts(with: other.names) }

  func fails(_ code: FileError.Code, _ what: String) -> FileError {
    FileError(code, "\(text.quotedForMessage) \(what)", path: text)
  }
}

/// All files; the functions expect that the lock is held.
struct Tree: Sendable {
  let root = Node(file: nil)
  private var count = 0

  mutating func nextNumber() -> Int {
    count += 1
    return count
  }

  func find(_ path: Path) throws(FileError) -> Node {
    var node = root
    for name in path.names {
      guard node.isFolder else { throw path.fails(.notDirectory, "leads through a file") }
      guard let next = node.children[name] else { throw path.fails(.notFound, "does not exist") }
      node = next
    }
    return node
  }

  func file(_ path: Path) throws(FileError) -> Node {
    let node = try find(path)
    if node.isFolder { throw path.fails(.isDirectory, "is a folder") }
    return node
  }

  func folder(_ path: Path) throws(FileError) -> Node {
    let node = try find(path)
    if !node.isFolder { throw path.fails(.notDirectory, "is no folder") }
    return node
  }

  /// The folder of a path, and the name in it.
  func place(_ path: Path) throws(FileError) -> (folder: Node, name: String) {
    guard let name = path.names.last else {
      throw path.fails(.permissionDenied, "is the root and stays as it is")
    }
    return (try folder(path.parent), name)
  }

  /// The folder at a path, which is created with those above it.
  func folderCreating(_ path: Path) throws(FileError) -> Node {
    var node = root
    for name in path.names {
      guard node.isFolder else { throw path.fails(.notDirectory, "leads through a file") }
      let next = node.children[name] ?? Node(file: nil)
      node.children[name] = next
      node = next
    }
    if !node.isFolder { throw path.fails(.notDirectory, "is a file") }
    return node
  }

  func info(_ node: Node, _ path: Path) -> FileInfo {
    FileInfo(
      name: path.names.last ?? "",
      path: path.text,
      kind: node.isFolder ? .directory : .file,
      size: Int64(node.bytes?.count ?? 0),
      mtimeMs: Int64(node.revision),
      version: FileVersion("\(ObjectIdentifier(node)).\(node.revision)")
    )
  }
}
