import Glibc
import PerdureModel

/// What there was at some paths at a time, so that it can be told what has changed since.
struct TreeSnapshot {
  /// What is compared.
  struct Mark: Equatable {
    var kind: TreeEntry.Kind
    var size: Int64
    var modified: Int64
    var changed: Int64
    var identity: FileIdentity
    /// Whether it was changed so recently that the next change may have the same time.
    var isFresh: Bool

    init(_ entry: TreeEntry, now: Int64) {
      kind = entry.kind
      size = entry.size
      modified = entry.modified
      changed = entry.changed
      identity = entry.identity
      isFresh = now - entry.changed < TreeSnapshot.resolution
    }

    func isSame(as other: Mark) -> Bool {
      guard kind == other.kind, identity == other.identity else { return false }
      // A folder's own times say only what its entries say better.
      if kind == .folder { return true }
      return size == other.size && modified == other.modified && changed == other.changed
        && !isFresh
    }
  }

  /// How far apart two changes are at least that have different times; clocks of file systems are
  /// coarse.
  static let resolution: Int64 = 50_000_000

  var marks: [VirtualPath: Mark] = [:]

  /// What may be different from an earlier time.
  func changes(since before: TreeSnapshot) -> Set<VirtualPath> {
    var changed: Set<VirtualPath> = []
    for (path, mark) in marks {
      guard let old = before.marks[path] else {
        changed.insert(path)
        continue
      }
      if !old.isSame(as: mark) { changed.insert(path) }
    }
    for path in before.marks.keys where marks[path] == nil { changed.insert(path) }
    // What a link leads to has a mark of its own, behind the link's path.
    return Set(changed.map { $0.name == "" ? $0.parent : $0 })
  }
}
