import Glibc
import PerdureModel

/// Lists what is below a folder, within bounds.
struct TreeListing {
  private let tree: FileTree
  private let start: VirtualPath
  private let bounds: ListingBounds
  private let deadline: Int64
  private let excluded: Set<String>
  private let isCancelled: @Sendable () -> Bool
  private var listing = FileListing(entries: [], truncated: false)
  private var bytes = 0

  private static let deepest = 400
  private static let largestRules = 1 << 20

  init(
    _ tree: FileTree,
    _ path: VirtualPath,
    _ bounds: ListingBounds,
    isCancelled: @escaping @Sendable () -> Bool
  ) throws(FileError) {
    for (name, value) in [
      ("maxEntries", bounds.maxEntries), ("maxBytes", bounds.maxBytes),
      ("timeoutMs", bounds.timeoutMs),
    ] where value < 1 {
      throw FileError(
        .invalid,
        "the bound \(name) is \(value)",
        path: path.text,
        hint: "give 1 at least"
      )
    }
    self.tree = tree
    self.bounds = bounds
    self.isCancelled = isCancelled
    start = path
    excluded = Set(bounds.exclude)
    let (end, overflow) = Int64(bounds.timeoutMs).multipliedReportingOverflow(by: 1_000_000)
    deadline = overflow ? .max : monotonicNanoseconds().addingReportingOverflow(end).partialValue
  }

  /// Returns the listing.
  mutating func run() throws(FileError) -> FileListing {
    let folder = try tree.findFolder(start)
    let chain = bounds.gitignore ? chainAbove() : nil
    let opened = try asking(start, "read") { () throws(SystemFailure) in
      try folder.reopen(.folder)
    }
    try list(opened, start, "", chain, depth: 0)
    return listing
  }

  /// The rules that count in the folder itself, if it is in a work tree.
  private func chainAbove() -> IgnoreChain? {
    var chain: IgnoreChain?
    for depth in start.names.indices {
      let path = VirtualPath(names: Array(start.names.prefix(depth)))
      guard let folder = try? tree.findFolder(path) else { continue }
      extend(&chain, folder, depth: depth)
    }
    return chain
  }

  /// Adds what a folder says; a work tree begins where there is a `.git`.
  private func extend(_ chain: inout IgnoreChain?, _ folder: Descriptor, depth: Int) {
    guard bounds.gitignore else { return }
    if chain == nil {
      guard (try? folder.entry(of: FileName(".git"))) != nil else { return }
      chain = IgnoreChain()
      if let text = text(".git/info/exclude", in: folder) { chain?.add(text, depth: depth) }
    }
    if let text = text(".gitignore", in: folder) { chain?.add(text, depth: depth) }
  }

  private func text(_ path: String, in folder: Descriptor) -> String? {
    // Git follows no links to its rules either.
    guard let file = try? folder.open(path, link: true, reach: .noLinks).reopen(.read),
      let bytes = try? file.read(offset: 0, length: Self.largestRules)
    else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  private mutating func list(
    _ folder: Descriptor,
    _ path: VirtualPath,
    _ prefix: String,
    _ chain: IgnoreChain?,
    depth: Int
  ) throws(FileError) {
    var chain = chain
    extend(&chain, folder, depth: path.names.count)
    for (name, kind) in try names(in: folder, path, chain) {
      if isCancelled() { throw FileError.aborted(start.text) }
      let text = prefix + name.text
      guard take(text, kind) else { return }
      let place = path.appending(name.text)
      guard kind == .directory, let inner = open(name, in: folder),
        (try? tree.requireShown(inner, place)) != nil
      else { continue }
      guard depth < Self.deepest else {
        listing.truncated = true
        continue
      }
      try list(inner, place, text + "/", chain, depth: depth + 1)
      if listing.truncated { return }
    }
  }

  /// Opens a folder that is still one; those that may not be read have no entries.
  private func open(_ name: FileName, in folder: Descriptor) -> Descriptor? {
    try? folder.open(name.text, folder: true, reach: .noLinks).reopen(.folder)
  }

  /// Adds an entry; `false` once a bound is reached.
  private mutating func take(_ path: String, _ kind: FileInfo.Kind) -> Bool {
    let cost = path.utf8.count + 2
    guard listing.entries.count < bounds.maxEntries, bytes + cost <= bounds.maxBytes,
      monotonicNanoseconds() < deadline
    else {
      listing.truncated = true
      return false
    }
    bytes += cost
    listing.entries.append(FileListing.Entry(path: path, kind: kind))
    return true
  }

  /// The names of a folder that are listed, in their order; no more than could be.
  private mutating func names(
    in folder: Descriptor,
    _ path: VirtualPath,
    _ chain: IgnoreChain?
  ) throws(FileError) -> [(name: FileName, kind: FileInfo.Kind)] {
    let most = bounds.maxEntries - listing.entries.count + 1
    var found: [(name: FileName, kind: FileInfo.Kind)] = []
    while true {
      let part = try asking(path, "read") { () throws(SystemFailure) in try folder.nextNames() }
      for (name, known) in part {
        // Many rules take their time for each name.
        if chain != nil, monotonicNanoseconds() >= deadline { break }
        guard let kind = kind(name, known, folder), isListed(name.text, kind, path, chain) else {
          continue
        }
        found.append((name, kind))
      }
      if part.isEmpty || found.count > 2 * max(most, 512) {
        found.sort { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }
        if found.count > most { found.removeLast(found.count - most) }
      }
      if part.isEmpty { return found }
      guard monotonicNanoseconds() < deadline else {
        listing.truncated = true
        return []
      }
    }
  }

  private func kind(
    _ name: FileName,
    _ known: TreeEntry.Kind?,
    _ folder: Descriptor
  ) -> FileInfo.Kind? {
    switch known ?? (try? folder.entry(of: name).kind) {
    case .file: .file
    case .folder: .directory
    case .link: .symlink
    case .other, nil: nil
    }
  }

  private func isListed(
    _ name: String,
    _ kind: FileInfo.Kind,
    _ path: VirtualPath,
    _ chain: IgnoreChain?
  ) -> Bool {
    if name == ".git" || excluded.contains(name) { return false }
    if !bounds.hidden, name.hasPrefix(".") { return false }
    guard let chain else { return true }
    return !chain.ignores(path.names + [name], isFolder: kind == .directory)
  }
}
