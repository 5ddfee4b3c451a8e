import Perdure
import Synchronization

/// One opened file.
final class MemoryReader: FileReader {
  typealias Look =
    @Sendable (_ body: (_ bytes: [UInt8], _ info: FileInfo) -> Looked) throws(FileError) -> Looked

  /// What a look gives.
  enum Looked: Sendable {
    case bytes([UInt8])
    case info(FileInfo)
  }

  private let look: Look
  private let isClosed = Mutex(false)

  init(_ look: @escaping Look) { self.look = look }

  private func requireOpen() throws(FileError) {
    if isClosed.withLock({ $0 }) { throw FileError(.invalid, "the reader was closed") }
  }

  func info() async throws(FileError) -> FileInfo {
    try requireOpen()
    guard case .info(let info) = try look({ .info($1) }) else {
      throw FileError(.unknown, "the file has nothing to say")
    }
    return info
  }

  func read(offset: Int64, length: Int) async throws(FileError) -> [UInt8] {
    try requireOpen()
    guard offset >= 0, length >= 0 else { throw FileError(.invalid, "a negative number") }
    let looked = try look { bytes, _ in
      .bytes(Array(bytes.dropFirst(Int(clamping: offset)).prefix(length)))
    }
    guard case .bytes(let bytes) = looked else { return [] }
    return bytes
  }

  func close() async { isClosed.withLock { $0 = true } }
}

/// One opened folder.
final class MemoryFolder: FolderReader {
  private let env: MemoryEnvironment
  private let waiting: Mutex<[String]?>

  init(_ paths: [String], in env: MemoryEnvironment) {
    waiting = Mutex(paths)
    self.env = env
  }

  func next(_ maxEntries: Int) async throws(FileError) -> FolderPage {
    if Task.isCancelled { throw FileError.aborted(nil) }
    guard maxEntries > 0 else { throw FileError(.invalid, "a page of \(maxEntries) entries") }
    var entries: [FileInfo] = []
    while entries.count < maxEntries {
      let (isClosed, path) = waiting.withLock { ($0 == nil, $0?.popLast()) }
      if isClosed { throw FileError(.invalid, "the folder was closed") }
      guard let path else { return FolderPage(entries: entries, isLast: true) }
      // One that is gone is passed over.
      if let info = try? await env.fileInfo(path) { entries.append(info) }
    }
    return FolderPage(entries: entries, isLast: waiting.withLock { $0?.isEmpty ?? true })
  }

  func close() async { waiting.withLock { $0 = nil } }
}

/// One who wants to know of changes.
final class MemoryWatch: FileWatch {
  typealias Place = (path: Path, target: WatchTarget)

  let mode = WatchMode.native
  private let places: [Place]
  private let listener: Mutex<(@Sendable (FileChange) -> Void)?>

  init(_ places: [Place], _ listener: @escaping @Sendable (FileChange) -> Void) {
    self.places = places
    self.listener = Mutex(listener)
  }

  /// Tells of paths that changed, as far as they are covered.
  func see(_ changed: [Path]) {
    var covered: Set<String> = []
    for (target, wish) in places {
      for path in changed {
        // What happens above happens to the target.
        if target.isWithin(path) { covered.insert(target.text) }
        guard path.isWithin(target), path != target else { continue }
        let below = path.names.dropFirst(target.names.count)
        let isExcluded = below.contains { name in
          wish.exclude.names.contains(name) || (wish.exclude.hidden && name.hasPrefix("."))
        }
        if !isExcluded, wish.recursive || below.count == 1 { covered.insert(path.text) }
      }
    }
    guard !covered.isEmpty else { return }
    // While it tells, it is not closed.
    listener.withLock { $0?(.paths(covered.sorted())) }
  }

  func close() async { listener.withLock { $0 = nil } }
}
