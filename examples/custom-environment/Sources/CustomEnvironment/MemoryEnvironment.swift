import Perdure
import Synchronization

/// Files in memory, without a shell.
final class MemoryEnvironment: Environment {
  let id: String
  let cwd = "/"
  let confinement = Confinement(tier: "memory", files: "tools reach files in memory alone")
  private let tree = Mutex(Tree())
  private let watches = Mutex<[MemoryWatch]>([])

  init(id: String) { self.id = id }

  /// Does something while nobody else does.
  private func run<Value: Sendable>(
    _ text: String,
    _ body: @Sendable (inout Tree, Path) throws(FileError) -> Value
  ) throws(FileError) -> Value {
    let path = try Path(text)
    if Task.isCancelled { throw FileError.aborted(path.text) }
    return try tree.withLock { tree in
      Result { () throws(FileError) in try body(&tree, path) }
    }
    .get()
  }

  private func tell(_ texts: String...) {
    let paths = texts.compactMap { try? Path($0) }
    for watch in watches.withLock({ $0 }) { watch.see(paths) }
  }

  func absolutePath(_ path: String) throws(FileError) -> String { try Path(path).text }

  func canonicalPath(_ path: String) async throws(FileError) -> String {
    try run(path) { (tree, path) throws(FileError) in
      _ = try tree.find(path)
      return path.text
    }
  }

  func fileInfo(_ path: String) async throws(FileError) -> FileInfo {
    try run(path) { (tree, path) throws(FileError) in tree.info(try tree.find(path), path) }
  }

  func openFile(_ path: String, noFollow: Bool) async throws(FileError) -> any FileReader {
    let (node, path) = try run(path) { (tree, path) throws(FileError) in
      (try tree.file(path), path)
    }
    return MemoryReader { (body) throws(FileError) in
      try self.tree.withLock { tree in
        Result { () throws(FileError) in
          if Task.isCancelled { throw FileError.aborted(path.text) }
          return body(node.bytes ?? [], tree.info(node, path))
        }
      }
      .get()
    }
  }

  func openFolder(_ path: String) async throws(FileError) -> any FolderReader {
    let names = try run(path) { (tree, path) throws(FileError) in
      try tree.folder(path).children.keys.map { path.text + "/" + $0 }
    }
    return MemoryFolder(names, in: self)
  }

  func writeFile(
    _ path: String,
    _ bytes: [UInt8],
    expecting version: FileVersion?
  ) async throws(FileError) {
    try run(path) { (tree, path) throws(FileError) in
      let old = try? tree.find(path)
      if old?.isFolder == true { throw path.fails(.isDirectory, "is a folder") }
      if let version, old.map({ tree.info($0, path).version != version }) ?? true {
        var error = path.fails(.invalid, "was changed meanwhile")
        error.reason = .conflict
        throw error
      }
      _ = try tree.folderCreating(path.parent)
      let (folder, name) = try tree.place(path)
      // A new node: whoever has the old one open keeps its content.
      let node = Node(file: bytes)
      node.revision = tree.nextNumber()
      folder.children[name] = node
    }
    tell(path)
  }

  func appendFile(_ path: String, _ bytes: [UInt8]) async throws(FileError) {
    if try await !exists(path) { return try await writeFile(path, bytes) }
    try change(path) { $0 += bytes }
  }

  func truncateFile(_ path: String, to size: Int64) async throws(FileError) {
    guard size >= 0, size <= 1 << 30 else {
      throw try Path(path).fails(.invalid, "cannot have \(size) bytes")
    }
    try change(path) { bytes in
      let missing = max(0, Int(size) - bytes.count)
      bytes = bytes.prefix(Int(size)) + [UInt8](repeating: 0, count: missing)
    }
  }

  private func change(_ path: String, _ body: @Sendable (inout [UInt8]) -> Void) throws(FileError) {
    try run(path) { (tree, path) throws(FileError) in
      let node = try tree.file(path)
      var bytes = node.bytes ?? []
      body(&bytes)
      node.bytes = bytes
      node.revision = tree.nextNumber()
    }
    tell(path)
  }

  func flushFile(_ path: String) async throws(FileError) {
    try run(path) { (tree, path) throws(FileError) in _ = try tree.file(path) }
  }

  func rename(_ path: String, to newPath: String) async throws(FileError) {
    let new = try Path(newPath)
    try run(path) { (tree, path) throws(FileError) in
      let node = try tree.find(path)
      let (old, name) = try tree.place(path)
      let (folder, newName) = try tree.place(new)
      if new.isWithin(path), new != path { throw new.fails(.invalid, "is within what is renamed") }
      if let there = folder.children[newName], there.isFolder != node.isFolder {
        throw new.fails(there.isFolder ? .isDirectory : .notDirectory, "is of another kind")
      }
      old.children[name] = nil
      folder.children[newName] = node
    }
    tell(path, newPath)
  }

  func createFolder(_ path: String, recursive: Bool) async throws(FileError) {
    try run(path) { (tree, path) throws(FileError) in
      if recursive {
        _ = try tree.folderCreating(path)
        return
      }
      let (folder, name) = try tree.place(path)
      if folder.children[name] != nil { throw path.fails(.invalid, "exists already") }
      folder.children[name] = Node(file: nil)
    }
    tell(path)
  }

  func remove(_ path: String, recursive: Bool, force: Bool) async throws(FileError) {
    try run(path) { (tree, path) throws(FileError) in
      let (folder, name) = try tree.place(path)
      guard let node = folder.children[name] else {
        if force { return }
        throw path.fails(.notFound, "does not exist")
      }
      guard recursive || node.children.isEmpty else { throw path.fails(.invalid, "is not empty") }
      folder.children[name] = nil
    }
    tell(path)
  }

  func createTemporaryFolder(prefix: String) async throws(FileError) -> String {
    let path = try run("/") { (tree, _) throws(FileError) in "/\(prefix)\(tree.nextNumber())" }
    try await createFolder(path, recursive: false)
    return path
  }

  func createTemporaryFile(prefix: String, suffix: String) async throws(FileError) -> String {
    let path = try run("/") { (tree, _) throws(FileError) in
      "/\(prefix)\(tree.nextNumber())\(suffix)"
    }
    try await writeFile(path, [])
    return path
  }

  func watch(
    _ targets: [WatchTarget],
    _ onChange: @escaping @Sendable (FileChange) -> Void
  ) async throws(FileError) -> any FileWatch {
    var places: [MemoryWatch.Place] = []
    for target in targets { places.append((try Path(target.path), target)) }
    let watch = MemoryWatch(places, onChange)
    watches.withLock { $0.append(watch) }
    return watch
  }
}
