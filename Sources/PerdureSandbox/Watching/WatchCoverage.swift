import Glibc
import PerdureModel

/// What a watch looks at, and what the kernel tells it of.
struct WatchCoverage {
  private static let mostFolders = 10_000
  private static let deepest = 400
  /// File systems whose changes come from elsewhere: NFS, SMB, CIFS, FUSE, 9P, AFS, Ceph, GFS2, OCFS2.
  private static let remote: Set<Int64> = [
    0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42, 0x6573_5546, 0x0102_1997, 0x5346_414F, 0x00C3_6400,
    0x0116_1970, 0x7461_636F,
  ]

  private let tree: FileTree
  private let targets: [TreeWatch.Target]
  private(set) var source: ChangeSource?
  private(set) var snapshot = TreeSnapshot()
  private var numbers: [FileIdentity: Int32] = [:]
  private var seen: Set<FileIdentity> = []
  private var folders = 0

  init(_ tree: FileTree, _ targets: [TreeWatch.Target]) {
    self.tree = tree
    self.targets = targets
    // Without it there is polling.
    source = try? ChangeSource()
  }

  var mode: WatchMode { source == nil ? .polling : .native }

  /// Takes a new snapshot; what is in it is covered before it is looked at.
  mutating func look() throws(FileError) {
    snapshot = TreeSnapshot()
    seen = []
    folders = 0
    for target in targets { try look(at: target) }
    for (identity, number) in numbers where !seen.contains(identity) {
      source?.remove(number)
      numbers[identity] = nil
    }
  }

  private mutating func look(at target: TreeWatch.Target) throws(FileError) {
    coverAbove(target.path)
    guard let link = try? tree.find(target.path, link: true), let own = try? link.entry() else {
      return
    }
    add(target.path, own)
    var file = link
    var entry = own
    if own.kind == .link {
      guard let found = try? tree.find(target.path), let behind = try? found.entry() else {
        return
      }
      (file, entry) = (found, behind)
      if let place = try? tree.canonical(found, target.path) { coverAbove(place) }
    }
    switch entry.kind {
    case .folder: try lookInto(file, target.path, target.target, depth: 0)
    case .file, .other:
      cover(file, entry)
      if own.kind == .link { merge(target.path, entry) }
    case .link: break
    }
  }

  /// Watches the folders above a path, from whose names it can vanish.
  private mutating func coverAbove(_ path: VirtualPath) {
    for depth in path.names.indices {
      let above = VirtualPath(names: Array(path.names.prefix(depth)))
      guard let folder = try? tree.findFolder(above), let entry = try? folder.entry() else {
        return
      }
      cover(folder, entry)
    }
  }

  private mutating func cover(_ file: Descriptor, _ entry: TreeEntry) {
    guard let source else { return }
    if Self.remote.contains(file.fileSystem) {
      self.source = nil
      return
    }
    guard seen.insert(entry.identity).inserted, numbers[entry.identity] == nil else { return }
    do {
      numbers[entry.identity] = try source.add(file)
    } catch {
      // What cannot be watched for want of room or of a right is looked at again and again; what
      // vanished is not there.
      if error.code != ENOENT { self.source = nil }
    }
  }

  private mutating func add(_ path: VirtualPath, _ entry: TreeEntry) {
    snapshot.marks[path] = TreeSnapshot.Mark(entry, now: wallNanoseconds())
  }

  /// Lets a link look different when what it leads to does.
  private mutating func merge(_ path: VirtualPath, _ entry: TreeEntry) {
    snapshot.marks[path.appending("")] = TreeSnapshot.Mark(entry, now: wallNanoseconds())
  }

  private mutating func lookInto(
    _ folder: Descriptor,
    _ path: VirtualPath,
    _ target: WatchTarget,
    depth: Int
  ) throws(FileError) {
    folders += 1
    // Each one that it is in costs two descriptors meanwhile.
    guard folders <= Self.mostFolders, depth < Self.deepest else {
      throw FileError(
        .invalid,
        "\(path.text.quotedForMessage) is one of more than \(Self.mostFolders) folders to watch,"
          + " or more than \(Self.deepest) deep",
        path: path.text,
        hint: "watch fewer, or exclude some"
      )
    }
    guard let entry = try? folder.entry(), let opened = try? folder.reopen(.folder) else { return }
    cover(folder, entry)
    while let names = try? opened.nextNames(), !names.isEmpty {
      for (name, _) in names where !isExcluded(name.text, target) {
        let inner = path.appending(name.text)
        guard let entry = try? opened.entry(of: name) else { continue }
        add(inner, entry)
        guard target.recursive, entry.kind == .folder,
          let folder = try? opened.open(name.text, folder: true, reach: .noLinks)
        else { continue }
        try lookInto(folder, inner, target, depth: depth + 1)
      }
    }
  }

  private func isExcluded(_ name: String, _ target: WatchTarget) -> Bool {
    target.exclude.names.contains(name) || (target.exclude.hidden && name.hasPrefix("."))
  }
}
