import PerdureModel
import Synchronization

/// One opened regular file of a tree.
final class OpenedFile: FileReader {
  private let path: VirtualPath
  private let file: Mutex<Descriptor?>

  init(_ file: Descriptor, _ path: VirtualPath) {
    self.file = Mutex(file)
    self.path = path
  }

  private func opened() throws(FileError) -> Descriptor {
    if Task.isCancelled { throw FileError.aborted(path.text) }
    guard let file = file.withLock({ $0 }) else { throw FileError.closed(path) }
    return file
  }

  private func run<Value: Sendable>(
    _ body: @escaping @Sendable (Descriptor) throws(FileError) -> Value
  ) async throws(FileError) -> Value {
    let file = try opened()
    return try await WorkThreads.shared.run { Result { () throws(FileError) in try body(file) } }
      .get()
  }

  func info() async throws(FileError) -> FileInfo {
    let path = path
    return try await run { (file) throws(FileError) in
      let entry = try asking(path) { () throws(SystemFailure) in try file.entry() }
      guard let info = FileInfo(entry, path, target: nil) else { throw FileError.notRegular(path) }
      return info
    }
  }

  func read(offset: Int64, length: Int) async throws(FileError) -> [UInt8] {
    guard offset >= 0, length >= 0 else {
      throw FileError(
        .invalid,
        "\(length) bytes from \(offset) on cannot be read",
        path: path.text,
        hint: "give numbers from 0 on"
      )
    }
    let path = path
    return try await run { (file) throws(FileError) in
      // Never more room than the file has content: a length says nothing about it.
      let size = try asking(path) { () throws(SystemFailure) in try file.entry().size }
      let most = length > Self.piece ? max(Self.piece, Int(clamping: size - offset)) : length
      return try asking(path, "read") { () throws(SystemFailure) in
        try file.read(offset: offset, length: min(length, most))
      }
    }
  }

  private static let piece = 1 << 18

  func scanLines(from start: Int, to end: Int?) async throws(FileError) -> LineScan {
    let scanner = try LineScanner(from: start, to: end)
    let path = path
    return try await run { (file) throws(FileError) in
      var scanner = scanner
      var offset: Int64 = 0
      var mayBeHole = false
      while true {
        if mayBeHole, scanner.passesOver(newlines: 0), let end = file.holeEnd(at: offset) {
          scanner.pass(bytes: Int(end - offset), newlines: 0)
          offset = end
        }
        let piece = try asking(path, "read") { () throws(SystemFailure) in
          try file.read(offset: offset, length: Self.piece)
        }
        if piece.isEmpty { return scanner.finish() }
        let count = newlines(in: piece)
        mayBeHole = count == 0
        if scanner.passesOver(newlines: count) {
          scanner.pass(bytes: piece.count, newlines: count)
        } else {
          scanner.take(piece, newlines: count)
        }
        offset += Int64(piece.count)
      }
    }
  }

  func close() async { file.withLock { $0 = nil } }
}

/// One opened folder of a tree.
final class OpenedFolder: FolderReader {
  private struct State {
    var folder: Descriptor?
    var waiting: ArraySlice<FileName> = []
    var isAtEnd = false
  }

  private let path: VirtualPath
  private let state: Mutex<State>

  init(_ folder: Descriptor, _ path: VirtualPath) {
    state = Mutex(State(folder: folder))
    self.path = path
  }

  func next(_ maxEntries: Int) async throws(FileError) -> FolderPage {
    if Task.isCancelled { throw FileError.aborted(path.text) }
    guard maxEntries > 0 else {
      throw FileError(
        .invalid,
        "a page of \(maxEntries) entries is none",
        path: path.text,
        hint: "ask for 1 at least"
      )
    }
    return try await WorkThreads.shared.run { [self] in
      Result { () throws(FileError) in try page(maxEntries) }
    }
    .get()
  }

  private func page(_ maxEntries: Int) throws(FileError) -> FolderPage {
    let result = state.withLock { state in
      Result { () throws(FileError) in
        guard let folder = state.folder else { throw FileError.closed(path) }
        var entries: [FileInfo] = []
        while entries.count < maxEntries, let name = try nextName(folder, &state) {
          if let info = try info(name, folder) { entries.append(info) }
        }
        return FolderPage(entries: entries, isLast: state.isAtEnd && state.waiting.isEmpty)
      }
    }
    return try result.get()
  }

  private func nextName(
    _ folder: Descriptor,
    _ state: inout State
  ) throws(FileError) -> FileName? {
    if state.waiting.isEmpty, !state.isAtEnd {
      let names = try asking(path, "read") { () throws(SystemFailure) in
        try folder.nextNames()
      }
      state.waiting = names.map { $0.name }[...]
      state.isAtEnd = names.isEmpty
    }
    return state.waiting.popFirst()
  }

  /// What is known of an entry; `nil` if it is gone or of a kind that is not served.
  private func info(_ name: FileName, _ folder: Descriptor) throws(FileError) -> FileInfo? {
    let path = path.appending(name.text)
    do {
      let entry = try folder.entry(of: name)
      var target: String?
      if entry.kind == .link {
        target = try folder.open(name.text, link: true, reach: .noLinks).linkText()
      }
      return FileInfo(entry, path, target: target)
    } catch {
      return nil
    }
  }

  func close() async { state.withLock { $0 = State() } }
}

extension FileError {
  static func closed(_ path: VirtualPath) -> FileError {
    FileError(.invalid, "\(path.text.quotedForMessage) was closed by its reader", path: path.text)
  }
}
