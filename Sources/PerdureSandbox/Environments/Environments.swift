import Glibc
package import PerdureModel

extension TreeEnvironment {
  /// Opens a folder as an environment of its own: the folder is `/`, and there is no shell.
  ///
  /// `cwd` is a path in it. Throws a sentence that names the folder if it cannot be opened.
  package static func directory(
    at folder: String,
    cwd: String? = nil
  ) throws(PerdureError) -> TreeEnvironment {
    let root = try open(folder)
    do {
      let base = try cwd.map { (text) throws(FileError) in try VirtualPath(text, from: .root) }
      let environment = TreeEnvironment(
        id: "directory:\(root.identity.device).\(root.identity.inode)",
        tree: FileTree(root: root.descriptor, reach: .beneath),
        cwd: base ?? .root,
        home: .root,
        temporaryFolder: .root,
        commands: nil,
        confinement: Confinement(
          tier: "directory",
          files: "tools reach the files of one folder and nothing outside it"
        )
      )
      try environment.requireFolder(environment.cwd)
      return environment
    } catch {
      throw error.general
    }
  }

  /// Opens the machine's own files and shell, as this process may use them.
  ///
  /// Commands get `variables`, or else those of this process but for what looks like a key, and in
  /// neither case those of `names`; sessions need the launcher of sandboxes, which ends them with this
  /// process. Throws a sentence that names the folder if `cwd`, by default that of this process, cannot
  /// be opened.
  package static func local(
    cwd: String? = nil,
    shell: String? = nil,
    variables: [String: String]? = nil,
    withholding names: Set<String> = [],
    launcher: String? = nil
  ) throws(PerdureError) -> TreeEnvironment {
    let root = try open("/")
    let tree = FileTree(root: root.descriptor, reach: .machine)
    let confinement = Confinement(
      tier: "none",
      files: "tools reach all files that this user may use",
      commands: "commands run as this user, unconfined, with the network"
    )
    do {
      let current = try open(".").descriptor.systemPath()
      let start = try VirtualPath(current, from: .root)
      let base = try cwd.map { (text) throws(FileError) in try VirtualPath(text, from: start) }
      let given = ownVariable("TMPDIR").flatMap { $0.hasPrefix("/") ? $0 : nil }
      let temporary = try VirtualPath(given ?? "/tmp", from: .root)
      let environment = TreeEnvironment(
        id: "local",
        tree: tree,
        cwd: base ?? start,
        home: try VirtualPath(ownVariable("HOME") ?? "/", from: .root),
        temporaryFolder: temporary,
        commands: CommandRunner(
          CommandRunner.Configuration(
            shell: shell,
            variables: (variables ?? inheritedVariables).filter { !names.contains($0.key) },
            createSpill: { () throws(FileError) in try tree.spill(in: temporary) },
            confinement: confinement,
            sessions: localSessions(launcher)
          )
        ),
        confinement: confinement
      )
      try environment.requireFolder(environment.cwd)
      return environment
    } catch let error as FileError {
      throw error.general
    } catch let error as PerdureError {
      throw error
    } catch {
      throw PerdureError(.file, "the working folder of this process cannot be found")
    }
  }

  /// Without the launcher there is nobody to end them when this process is killed, so there are none.
  private static func localSessions(_ given: String?) -> SessionRegistry.Configuration? {
    guard let launcher = try? SandboxProgram.find(given) else { return nil }
    return SessionRegistry.Configuration(
      start: { (launch, options, _) throws(ExecutionError) in
        try SandboxedCommand.unconfined(launch, options, launcher: launcher)
      },
      most: 64
    )
  }

  private func requireFolder(_ path: String) throws(FileError) {
    _ = try tree.findFolder(try VirtualPath(path, from: .root))
  }

  private static func open(
    _ folder: String
  ) throws(PerdureError) -> (descriptor: Descriptor, identity: FileIdentity) {
    guard !folder.utf8.contains(0), !folder.isEmpty else {
      throw PerdureError(.file, "\(folder.quotedForMessage) names no folder")
    }
    do {
      let root = try Descriptor.root(at: folder)
      return (root, try root.entry().identity)
    } catch {
      throw PerdureError(
        .file,
        "the folder \(folder.quotedForMessage) cannot be opened",
        hint: "name a folder that exists and may be entered",
        cause: error.text
      )
    }
  }

  /// What commands get of the variables of this process: what looks like a key is left out.
  private static var inheritedVariables: [String: String] {
    let secret = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD"]
    var kept: [String: String] = [:]
    for variable in ownVariables() {
      guard let sign = variable.firstIndex(of: "=") else { continue }
      let name = String(variable[..<sign])
      if secret.contains(where: name.uppercased().contains) { continue }
      kept[name] = String(variable[variable.index(after: sign)...])
    }
    return kept
  }
}

extension FileTree {
  /// Creates a file for the output of a command, which only this user can read.
  func spill(in folder: VirtualPath) throws(FileError) -> (file: Descriptor, path: String) {
    var made: Descriptor?
    let path = try temporary(in: folder, prefix: "pi-output-", suffix: ".log") {
      (folder, name) throws(SystemFailure) in
      made = try folder.create(name, mode: 0o600)
    }
    guard let made else { throw FileError(.unknown, "the output of the command has no file") }
    return (made, path.text)
  }
}
