import Glibc
package import PerdureModel

/// An environment whose files are those below a folder of this machine.
package final class TreeEnvironment: Environment {
  package let id: String
  package let confinement: Confinement
  let tree: FileTree
  private let base: VirtualPath
  /// Where `~` leads.
  private let home: VirtualPath
  private let temporaryFolder: VirtualPath
  private let commands: CommandRunner?
  /// Those on which files are used.
  private let threads: WorkThreads
  /// Absent outside of a sandbox.
  private let sandbox: SandboxHost?

  init(
    id: String,
    tree: FileTree,
    cwd: VirtualPath,
    home: VirtualPath,
    temporaryFolder: VirtualPath,
    commands: CommandRunner?,
    confinement: Confinement,
    threads: WorkThreads = .shared,
    sandbox: SandboxHost? = nil
  ) {
    self.threads = threads
    self.sandbox = sandbox
    self.id = id
    self.tree = tree
    base = cwd
    self.home = home
    self.temporaryFolder = temporaryFolder
    self.commands = commands
    self.confinement = confinement
  }

  /// The same files and processes with another working folder, which need not exist.
  package func working(in folder: String) throws(FileError) -> TreeEnvironment {
    TreeEnvironment(
      id: id,
      tree: tree,
      cwd: try path(folder),
      home: home,
      temporaryFolder: temporaryFolder,
      commands: commands,
      confinement: confinement,
      threads: threads,
      sandbox: sandbox
    )
  }

  package var cwd: String { base.text }
  package var runsCommands: Bool { commands != nil }

  // MARK: Paths

  private func path(_ text: String) throws(FileError) -> VirtualPath {
    if text == "~" { return home }
    if text.hasPrefix("~/") { return try VirtualPath(String(text.dropFirst(2)), from: home) }
    if let file = try filePath(ofURL: text) { return try VirtualPath(file, from: .root) }
    return try VirtualPath(text, from: base)
  }

  /// Reads a `file://` URL; `nil` for everything else.
  private func filePath(ofURL text: String) throws(FileError) -> String? {
    let scheme = "file://"
    guard text.utf8.starts(with: scheme.utf8) else { return nil }
    var rest = text.utf8.dropFirst(scheme.utf8.count)
    if rest.starts(with: "localhost/".utf8) { rest = rest.dropFirst("localhost".utf8.count) }
    var bytes: [UInt8] = []
    var source = rest[...]
    while let byte = source.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = String(decoding: source.prefix(2), as: UTF8.self)
      guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else {
        throw FileError(.invalid, "\(text.quotedForMessage) is no URL of a file", path: text)
      }
      source = source.dropFirst(2)
      bytes.append(value)
    }
    guard bytes.first == UInt8(ascii: "/") else {
      throw FileError(
        .invalid,
        "\(text.quotedForMessage) names a file of another machine",
        path: text
      )
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  package func absolutePath(_ text: String) throws(FileError) -> String { try path(text).text }

  package func canonicalPath(_ text: String) async throws(FileError) -> String {
    try await run(text) { (tree, path) throws(FileError) in try tree.canonical(path).text }
  }

  // MARK: Files

  /// Does something with the tree on a thread that may block.
  private func run<Value: Sendable>(
    _ text: String,
    _ body: @escaping @Sendable (FileTree, VirtualPath) throws(FileError) -> Value
  ) async throws(FileError) -> Value {
    let path = try path(text)
    if Task.isCancelled { throw FileError.aborted(path.text) }
    let tree = tree
    return try await threads.run {
      Result { () throws(FileError) in try body(tree, path) }
    }
    .get()
  }

  package func fileInfo(_ text: String) async throws(FileError) -> FileInfo {
    try await run(text) { (tree, path) throws(FileError) in try tree.info(path) }
  }

  package func openFile(_ text: String, noFollow: Bool) async throws(FileError) -> any FileReader {
    try await run(text) { (tree, path) throws(FileError) in
      OpenedFile(try tree.openFile(path, link: noFollow).file, path)
    }
  }

  package func openFolder(_ text: String) async throws(FileError) -> any FolderReader {
    try await run(text) { (tree, path) throws(FileError) in
      let found = try tree.findFolder(path)
      return OpenedFolder(
        try asking(path, "read") { () throws(SystemFailure) in try found.reopen(.folder) },
        path
      )
    }
  }

  package func writeFile(
    _ text: String,
    _ bytes: [UInt8],
    expecting version: FileVersion?
  ) async throws(FileError) {
    try await run(text) { (tree, path) throws(FileError) in
      try tree.write(path, bytes, expecting: version)
    }
  }

  package func appendFile(_ text: String, _ bytes: [UInt8]) async throws(FileError) {
    try await run(text) { (tree, path) throws(FileError) in try tree.append(path, bytes) }
  }

  package func truncateFile(_ text: String, to size: Int64) async throws(FileError) {
    try await run(text) { (tree, path) throws(FileError) in try tree.truncate(path, to: size) }
  }

  package func flushFile(_ text: String) async throws(FileError) {
    try await run(text) { (tree, path) throws(FileError) in try tree.flush(path) }
  }

  package func rename(_ text: String, to newText: String) async throws(FileError) {
    let newPath = try path(newText)
    try await run(text) { (tree, path) throws(FileError) in
      try tree.rename(path, to: newPath)
    }
  }

  package func createFolder(_ text: String, recursive: Bool) async throws(FileError) {
    try await run(text) { (tree, path) throws(FileError) in
      try tree.createFolder(path, recursive: recursive)
    }
  }

  package func remove(_ text: String, recursive: Bool, force: Bool) async throws(FileError) {
    // What the host keeps for commands to read, only the host can remove.
    if let kept = sandbox?.outputs, let name = kept.name(of: try path(text)) {
      return try kept.remove(name, force: force)
    }
    try await run(text) { (tree, path) throws(FileError) in
      try tree.remove(path, recursive: recursive, force: force)
    }
  }

  package func createTemporaryFolder(prefix: String) async throws(FileError) -> String {
    try await run(temporaryFolder.text) { (tree, folder) throws(FileError) in
      try tree.temporary(in: folder, prefix: prefix) { (folder, name) throws(SystemFailure) in
        try folder.makeFolder(name, mode: 0o700)
      }
      .text
    }
  }

  package func createTemporaryFile(
    prefix: String,
    suffix: String
  ) async throws(FileError) -> String {
    try await run(temporaryFolder.text) { (tree, folder) throws(FileError) in
      try tree.temporary(in: folder, prefix: prefix, suffix: suffix) {
        (folder, name) throws(SystemFailure) in
        _ = try folder.create(name, mode: 0o600)
      }
      .text
    }
  }

  package func listFiles(
    _ text: String,
    _ bounds: ListingBounds
  ) async throws(FileError) -> FileListing {
    let isCancelled = CancellationMark()
    let path = try path(text)
    if Task.isCancelled { throw FileError.aborted(path.text) }
    let result = await withTaskCancellationHandler {
      await threads.run { [tree] in
        Result { () throws(FileError) in
          var listing = try TreeListing(tree, path, bounds) { isCancelled.isSet }
          return try listing.run()
        }
      }
    } onCancel: {
      isCancelled.set()
    }
    return try result.get()
  }

  package func watch(
    _ targets: [WatchTarget],
    _ onChange: @escaping @Sendable (FileChange) -> Void
  ) async throws(FileError) -> any FileWatch {
    if Task.isCancelled { throw FileError.aborted(nil) }
    var resolved: [TreeWatch.Target] = []
    for target in targets {
      resolved.append(TreeWatch.Target(path: try path(target.path), target: target))
    }
    let watch = TreeWatch(tree, resolved, threads, onChange)
    try await watch.start()
    return watch
  }

  // MARK: Commands

  package func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async throws(ExecutionError) -> ExecutionResult {
    guard let commands else {
      throw ExecutionError(
        .shellUnavailable,
        "the environment \(id) runs no commands",
        hint: "work with its files"
      )
    }
    if Task.isCancelled {
      throw ExecutionError(.aborted, "the command was cancelled before it began")
    }
    let (folder, place) = try await commandFolder(options.cwd)
    return try await commands.execute(command, options, in: folder, place, onOutput)
  }

  /// Opens the folder in which a command runs.
  private func commandFolder(
    _ given: String?
  ) async throws(ExecutionError) -> (Descriptor, VirtualPath) {
    do {
      let place = try path(given ?? cwd)
      let folder = try await run(given ?? cwd) { (tree, path) throws(FileError) in
        let found = try tree.findFolder(path)
        return try asking(path) { () throws(SystemFailure) in try found.reopen(.folder) }
      }
      return (folder, place)
    } catch {
      switch error.code {
      case .aborted: throw ExecutionError(.aborted, error.message)
      case .notFound:
        throw ExecutionError(.spawnError, "the working folder does not exist: \(error.message)")
      default: throw ExecutionError(.spawnError, error.message, hint: error.hint)
      }
    }
  }

  package var hasSessions: Bool { commands?.sessions != nil }

  package func startSession(
    _ command: EnvironmentCommand,
    _ options: SessionOptions
  ) async throws(ExecutionError) -> any CommandSession {
    if let commands, hasSessions {
      let (folder, place) = try await commandFolder(options.cwd)
      if let session = try await commands.startSession(command, options, in: folder, place) {
        return session
      }
    }
    throw ExecutionError(
      .notSupported,
      "the environment \(id) runs no commands in the background",
      hint: id == "local"
        ? "install \(SandboxProgram.name) beside this program; it ends them when the host ends"
        : "run it in the foreground, with a timeout"
    )
  }

  package func session(_ id: String) -> (any CommandSession)? { commands?.sessions?.session(id) }

  package func cleanup() async { await commands?.cleanup() }

  /// Whether commands can still be run and files used: a sandbox may have been ended from outside.
  package var isAlive: Bool { sandbox?.isAlive ?? true }

  /// Ends a sandbox with all in it and removes what it kept on the host; nothing works afterwards.
  package func close() async {
    guard let sandbox else {
      await commands?.cleanup()
      return
    }
    commands?.close()
    await commands?.cleanup()
    sandbox.end()
    await commands?.untilIdle()
    await withCheckedContinuation { continuation in
      let isStarted = WorkThreads.startPlain {
        sandbox.removeKept()
        continuation.resume()
      }
      if !isStarted {
        // Better late on this thread than never.
        sandbox.removeKept()
        continuation.resume()
      }
    }
  }
}
