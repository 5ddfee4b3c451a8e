import Glibc
import PerdureModel

/// Changing the content of files.
///
/// A file is replaced by another one that has the new content, so nobody ever sees a part of it, and
/// another name that the old one has elsewhere keeps the old content.
extension FileTree {
  private static let newMode: Int32 = 0o644

  func write(
    _ path: VirtualPath,
    _ bytes: [UInt8],
    expecting version: FileVersion?
  ) throws(FileError) {
    let found: Descriptor
    do {
      found = try root.open(path.below, reach: reach)
    } catch {
      guard error.code == ENOENT else { throw FileError(error, path, "written") }
      return try create(path, bytes, expecting: version)
    }
    let entry = try asking(path) { () throws(SystemFailure) in try found.entry() }
    switch entry.kind {
    case .file: break
    case .folder: throw FileError(SystemFailure(EISDIR), path)
    case .link, .other: throw FileError.notRegular(path)
    }
    if let version, version != entry.version { throw FileError.conflict(path) }
    try checkWritable(found, path)
    let place = try placeBehindLinks(of: found, entry.identity, path)
    do {
      try replace(place, found, bytes, expecting: version)
    } catch {
      guard Self.forbidsReplacing(error) else {
        if error == Self.changed { throw FileError.conflict(path) }
        throw FileError(error, path, "written")
      }
      try overwrite(found, entry, bytes, path)
    }
  }

  /// Who may not write into a file may not replace it either.
  private func checkWritable(_ file: Descriptor, _ path: VirtualPath) throws(FileError) {
    do {
      _ = try file.reopen(.write)
    } catch {
      // A program that runs cannot be written into, but another file can take its place.
      if error.code != ETXTBSY { throw FileError(error, path, "written") }
    }
  }

  private func create(
    _ path: VirtualPath,
    _ bytes: [UInt8],
    expecting version: FileVersion?
  ) throws(FileError) {
    if version != nil { throw FileError.conflict(path) }
    _ = try folderCreating(path.parent)
    let place = try place(path, "written")
    do {
      _ = try place.folder.entry(of: place.name)
    } catch {
      guard error.code == ENOENT else { throw FileError(error, path, "written") }
      do {
        return try replace(place, nil, bytes, expecting: nil)
      } catch {
        throw FileError(error, path, "written")
      }
    }
    throw FileError(
      .notFound,
      "\(path.text.quotedForMessage) is a link that leads to nothing",
      path: path.text,
      hint: "remove it, or write what it leads to"
    )
  }

  private static let changed = SystemFailure(Int32(ESTALE))

  private static func forbidsReplacing(_ failure: SystemFailure) -> Bool {
    [EBUSY, EXDEV, EACCES, EPERM].contains(failure.code)
  }

  /// Puts a new file in the place of `old`, or where nothing was.
  private func replace(
    _ place: (folder: Descriptor, name: FileName),
    _ old: Descriptor?,
    _ bytes: [UInt8],
    expecting version: FileVersion?
  ) throws(SystemFailure) {
    try replace(place, old) { (file) throws(SystemFailure) in
      try file.write(bytes)
      guard let version else { return }
      // The last moment at which the content of somebody else can still be noticed.
      guard try place.folder.entry(of: place.name).version == version else { throw Self.changed }
    }
  }

  private func replace(
    _ place: (folder: Descriptor, name: FileName),
    _ old: Descriptor?,
    _ fill: (Descriptor) throws(SystemFailure) -> Void
  ) throws(SystemFailure) {
    let (file, name) = try newFile(in: place.folder, mode: old == nil ? Self.newMode : 0o600)
    do {
      try fill(file)
      old?.copyAttributes(to: file)
      try place.folder.rename(name, to: place.folder, place.name)
    } catch {
      try? place.folder.remove(name, isFolder: false)
      throw error
    }
  }

  private func newFile(
    in folder: Descriptor,
    mode: Int32
  ) throws(SystemFailure) -> (file: Descriptor, name: FileName) {
    while true {
      let mark = String(UInt64.random(in: 0 ... .max), radix: 36)
      let name = FileName(".perdure-\(mark).tmp")
      do {
        return (try folder.create(name, mode: mode), name)
      } catch {
        if error.code != EEXIST { throw error }
      }
    }
  }

  /// Writes into the file itself, where its folder allows no other one, unless it has other names.
  private func overwrite(
    _ file: Descriptor,
    _ entry: TreeEntry,
    _ bytes: [UInt8],
    _ path: VirtualPath
  ) throws(FileError) {
    guard entry.links == 1 else {
      throw FileError(
        .permissionDenied,
        "\(path.text.quotedForMessage) has other names and cannot be replaced",
        path: path.text
      )
    }
    try asking(path, "written") { () throws(SystemFailure) in
      let opened = try file.reopen(.write)
      try opened.truncate(to: 0)
      try opened.write(bytes)
    }
  }

  func append(_ path: VirtualPath, _ bytes: [UInt8]) throws(FileError) {
    do {
      _ = try root.open(path.below, reach: reach)
    } catch {
      guard error.code == ENOENT else { throw FileError(error, path, "written") }
      return try create(path, bytes, expecting: nil)
    }
    try change(path, .append) { (file) throws(SystemFailure) in try file.write(bytes) }
  }

  func truncate(_ path: VirtualPath, to size: Int64) throws(FileError) {
    guard size >= 0 else {
      throw FileError(.invalid, "\(size) is no size of a file", path: path.text)
    }
    try change(path, .write) { (file) throws(SystemFailure) in try file.truncate(to: size) }
  }

  /// Changes a file in its place; one with other names gets a content of its own first.
  private func change(
    _ path: VirtualPath,
    _ mode: OpenMode,
    _ body: (Descriptor) throws(SystemFailure) -> Void
  ) throws(FileError) {
    let (file, entry) = try openFile(path, mode)
    guard entry.links > 1, !changesOtherNames else {
      return try asking(path, "written") { () throws(SystemFailure) in try body(file) }
    }
    let old = try find(path)
    let place = try placeBehindLinks(of: old, entry.identity, path)
    try asking(path, "written") { () throws(SystemFailure) in
      let content = try old.reopen(.read)
      try replace(place, old) { (copy) throws(SystemFailure) in
        var offset: Int64 = 0
        while true {
          let piece = try content.read(offset: offset, length: 1 << 18)
          if piece.isEmpty { break }
          try copy.write(piece)
          offset += Int64(piece.count)
        }
        try body(copy)
      }
    }
  }

  func flush(_ path: VirtualPath) throws(FileError) {
    let (file, _) = try openFile(path)
    try asking(path, "written") { () throws(SystemFailure) in try file.flush() }
  }
}
