import Glibc
import PerdureModel

/// The files below one open folder.
///
/// The folder is found by its path once. From then on everything is reached from its descriptor, so
/// nothing that is put in its place, or in the place of a folder below it, leads elsewhere. All members
/// may block.
final class FileTree: Sendable {
  let root: Descriptor
  let reach: Reach
  /// What no operation changes.
  let protection: ProtectedPaths
  /// What no operation shows the content of, even if the host replaced what lay over it.
  let hidden: ProtectedPaths
  /// Whether files with other names are changed in their place, so that the others change, too.
  let changesOtherNames: Bool
  /// Whether the kernel's own files below `/proc` are kept from tools, which may do more than commands.
  let hidesKernelFiles: Bool

  init(
    root: Descriptor,
    reach: Reach,
    protection: ProtectedPaths = ProtectedPaths([]),
    hidden: ProtectedPaths = ProtectedPaths([]),
    isSandbox: Bool = false
  ) {
    self.root = root
    self.reach = reach
    self.protection = ProtectedPaths(protection.all + hidden.all)
    self.hidden = hidden
    changesOtherNames = reach == .machine
    hidesKernelFiles = isSandbox
  }

  // MARK: Finding

  /// Opens what a path leads to, for its name only.
  func find(_ path: VirtualPath, link: Bool = false) throws(FileError) -> Descriptor {
    try asking(path) { () throws(SystemFailure) in
      try root.open(path.below, link: link, reach: reach)
    }
  }

  func findFolder(_ path: VirtualPath) throws(FileError) -> Descriptor {
    let folder = try asking(path) { () throws(SystemFailure) in
      try root.open(path.below, folder: true, reach: reach)
    }
    try requireShown(folder, path)
    return folder
  }

  /// Opens a regular file for work, and says what it is.
  func openFile(
    _ path: VirtualPath,
    link: Bool = false,
    _ mode: OpenMode = .read
  ) throws(FileError) -> (file: Descriptor, entry: TreeEntry) {
    let found = try find(path, link: link)
    let entry = try asking(path) { () throws(SystemFailure) in try found.entry() }
    switch entry.kind {
    case .file: break
    case .folder: throw FileError(SystemFailure(EISDIR), path)
    case .link:
      throw FileError(
        .invalid,
        "\(path.text.quotedForMessage) is a symbolic link",
        path: path.text,
        hint: "open what it leads to"
      )
    case .other: throw FileError.notRegular(path)
    }
    if hidesKernelFiles, found.fileSystem == Self.kernelFiles {
      throw FileError(SystemFailure(EACCES), path)
    }
    try requireShown(found, path)
    if mode != .read { try requireChangeable(found, path) }
    let doing = mode == .read ? "read" : "written"
    return try asking(path, doing) { () throws(SystemFailure) in
      (try found.reopen(mode), entry)
    }
  }

  /// Opens the folder of a path, and returns the name in it; the root has none.
  func place(
    _ path: VirtualPath,
    _ doing: String
  ) throws(FileError) -> (folder: Descriptor, name: FileName) {
    guard let name = path.name else {
      throw FileError(
        .permissionDenied,
        "the root of the environment cannot be \(doing)",
        path: path.text
      )
    }
    do {
      let folder = try root.open(path.parent.below, folder: true, reach: reach)
      try requireChangeable(name, in: folder, path, doing)
      return (folder, FileName(name))
    } catch let error as SystemFailure {
      throw FileError(error, path, doing)
    } catch let error as FileError {
      throw error
    } catch {
      throw FileError(.unknown, "\(error)", path: path.text)
    }
  }

  /// The place of what a path leads to behind all links, to put something else there.
  func placeBehindLinks(
    of file: Descriptor,
    _ identity: FileIdentity,
    _ path: VirtualPath
  ) throws(FileError) -> (folder: Descriptor, name: FileName) {
    let behind = try canonical(file, path)
    let place = try place(behind, "written")
    let there = try asking(path) { () throws(SystemFailure) in
      try place.folder.entry(of: place.name)
    }
    guard there.identity == identity else { throw FileError.conflict(path) }
    return place
  }

  /// Where something is that was opened by `path`, without links.
  func canonical(_ file: Descriptor, _ path: VirtualPath) throws(FileError) -> VirtualPath {
    let base = try asking(path) { () throws(SystemFailure) in try root.systemPath() }
    let full = try asking(path) { () throws(SystemFailure) in try file.systemPath() }
    let prefix = base == "/" ? "" : base
    guard full == base || full.utf8.starts(with: "\(prefix)/".utf8) else {
      throw FileError.outside(path)
    }
    return try VirtualPath(
      "/" + String(decoding: full.utf8.dropFirst(prefix.utf8.count), as: UTF8.self),
      from: .root
    )
  }

  func canonical(_ path: VirtualPath) throws(FileError) -> VirtualPath {
    for _ in 0..<Self.mostTries {
      let file = try find(path)
      let found = try canonical(file, path)
      // Of what was removed by then the kernel tells where it was, with a remark; another file may
      // have taken its place.
      let links = try asking(path) { () throws(SystemFailure) in try file.entry().links }
      if links > 0 { return found }
    }
    throw FileError(SystemFailure(ENOENT), path)
  }

  private static let mostTries = 100

  // MARK: Looking

  func info(_ path: VirtualPath) throws(FileError) -> FileInfo {
    let found = try find(path, link: true)
    let entry = try asking(path) { () throws(SystemFailure) in try found.entry() }
    let target =
      entry.kind == .link
      ? try asking(path) { () throws(SystemFailure) in try found.linkText() } : nil
    guard let info = FileInfo(entry, path, target: target) else {
      throw FileError.notRegular(path)
    }
    return info
  }

  // MARK: Folders

  func createFolder(_ path: VirtualPath, recursive: Bool) throws(FileError) {
    if recursive {
      _ = try folderCreating(path)
      return
    }
    let place = try place(path, "created")
    try asking(path, "created") { () throws(SystemFailure) in
      try place.folder.makeFolder(place.name)
    }
  }

  /// Opens a folder, which is created with those above it if it is missing.
  func folderCreating(_ path: VirtualPath) throws(FileError) -> Descriptor {
    do {
      return try root.open(path.below, folder: true, reach: reach)
    } catch {
      guard error.code == ENOENT, let name = path.name else {
        throw FileError(error, path, "created")
      }
      let above = try folderCreating(path.parent)
      try requireChangeable(name, in: above, path, "created")
      do {
        try above.makeFolder(FileName(name))
      } catch {
        if error.code != EEXIST { throw FileError(error, path, "created") }
      }
      return try findFolder(path)
    }
  }

  // MARK: Removing and renaming

  func remove(_ path: VirtualPath, recursive: Bool, force: Bool) throws(FileError) {
    do {
      let place = try place(path, "removed")
      try remove(place.name, in: place.folder, path, recursive: recursive, depth: 0)
    } catch {
      if !force || error.code != .notFound { throw error }
    }
  }

  private static let deepest = 400

  private func remove(
    _ name: FileName,
    in folder: Descriptor,
    _ path: VirtualPath,
    recursive: Bool,
    depth: Int
  ) throws(FileError) {
    let entry = try asking(path, "removed") { () throws(SystemFailure) in
      try folder.entry(of: name)
    }
    if entry.kind == .folder, recursive {
      guard depth < Self.deepest else {
        throw FileError(
          .invalid,
          "\(path.text.quotedForMessage) is too deep to be removed with what holds it",
          path: path.text,
          hint: "remove the deeper part first"
        )
      }
      try empty(name, in: folder, path, depth: depth)
    }
    try asking(path, "removed") { () throws(SystemFailure) in
      try folder.remove(name, isFolder: entry.kind == .folder)
    }
  }

  private func empty(
    _ name: FileName,
    in folder: Descriptor,
    _ path: VirtualPath,
    depth: Int
  ) throws(FileError) {
    let inner = try asking(path, "removed") { () throws(SystemFailure) in
      try folder.openFolder(name).reopen(.folder)
    }
    while true {
      let names = try asking(path, "read") { () throws(SystemFailure) in try inner.nextNames() }
      if names.isEmpty { return }
      for (name, _) in names {
        do {
          let path = path.appending(name.text)
          try remove(name, in: inner, path, recursive: true, depth: depth + 1)
        } catch {
          // Somebody else removed it.
          if error.code != .notFound { throw error }
        }
      }
    }
  }

  func rename(_ path: VirtualPath, to newPath: VirtualPath) throws(FileError) {
    let old = try place(path, "renamed")
    let new = try place(newPath, "replaced")
    do {
      _ = try old.folder.entry(of: old.name)
    } catch {
      throw FileError(error, path, "renamed")
    }
    try asking(newPath, "replaced") { () throws(SystemFailure) in
      try old.folder.rename(old.name, to: new.folder, new.name)
    }
  }

  /// Creates something with a name that nobody has yet, and returns its path.
  func temporary(
    in folder: VirtualPath,
    prefix: String,
    suffix: String = "",
    _ make: (Descriptor, FileName) throws(SystemFailure) -> Void
  ) throws(FileError) -> VirtualPath {
    for part in [prefix, suffix] where part.utf8.contains(where: { $0 == 0x2F || $0 == 0 }) {
      throw FileError(.invalid, "\(part.quotedForMessage) cannot be a part of a name")
    }
    let opened = try findFolder(folder)
    while true {
      let name = "\(prefix)\(String(UInt64.random(in: 0 ... .max), radix: 36))\(suffix)"
      do {
        try make(opened, FileName(name))
        return folder.appending(name)
      } catch {
        if error.code != EEXIST { throw FileError(error, folder.appending(name), "created") }
      }
    }
  }
}

extension FileInfo {
  /// What a tree knows of something; `nil` for what is not served.
  init?(_ entry: TreeEntry, _ path: VirtualPath, target: String?) {
    let kind: Kind
    switch entry.kind {
    case .file: kind = .file
    case .folder: kind = .directory
    case .link: kind = .symlink
    case .other: return nil
    }
    self.init(
      name: path.name ?? "",
      path: path.text,
      kind: kind,
      size: entry.size,
      mtimeMs: entry.modified / 1_000_000,
      version: entry.version,
      target: target
    )
  }
}
