import Glibc
import PerdureModel
import Synchronization

/// A folder of the host's for one sandbox: what it keeps of outputs, and in the tier `landlock` also its
/// temporary files.
final class HostScratch: Sendable {
  private static let prefix = "perdure-sandbox-"
  static let outputs = "output"
  static let temporary = "tmp"

  /// Without a link on the way.
  let path: String
  private let folder: Descriptor
  private let outputFolder: Descriptor
  /// Holds the claim by which others see that it is in use.
  private let claim: Mutex<Descriptor?>
  private let above: Descriptor
  private let name: String
  private let owner: FileUser?

  /// Makes one in the folder for temporary files, for a user if that is not this process' own; removes
  /// those that processes left behind which are gone.
  init(for owner: FileUser?) throws(SystemFailure) {
    let given = ownVariable("TMPDIR").flatMap { $0.hasPrefix("/") ? $0 : nil }
    above = try Descriptor.root(at: given ?? "/tmp")
    Self.sweep(above)
    self.owner = owner
    let held: Descriptor
    (name, folder, held) = try Self.make(in: above)
    claim = Mutex(held)
    path = try folder.systemPath()
    for part in [Self.outputs, Self.temporary] {
      try folder.makeFolder(FileName(part), mode: 0o700)
      if let owner { try folder.openFolder(FileName(part)).reopen(.folder).give(to: owner) }
    }
    if let owner { try held.give(to: owner) }
    outputFolder = try folder.openFolder(FileName(Self.outputs))
  }

  deinit { remove() }

  private static func make(
    in above: Descriptor
  ) throws(SystemFailure) -> (name: String, folder: Descriptor, held: Descriptor) {
    var attempts = 0
    while true {
      let mark = String(UInt64.random(in: 0 ... .max), radix: 36)
      let name = "\(prefix)\(geteuid())-\(mark)"
      try above.makeFolder(FileName(name), mode: 0o700)
      do throws(SystemFailure) {
        let folder = try above.openFolder(FileName(name))
        let held = try folder.reopen(.folder)
        try held.claim()
        // Somebody may have claimed and removed it before.
        let identity = try held.entry().identity
        guard try above.entry(of: FileName(name)).identity == identity else {
          throw SystemFailure(Int32(ENOENT))
        }
        return (name, folder, held)
      } catch {
        // Somebody took it for one that was left behind.
        attempts += 1
        if attempts == 8 { throw error }
      }
    }
  }

  /// Removes it with all in it; may be called again.
  func remove() {
    let held = claim.withLock { held in
      defer { held = nil }
      return held
    }
    guard let held else { return }
    withExtendedLifetime(held) { Self.remove(name, in: above) }
  }

  private static func remove(_ name: String, in above: Descriptor) {
    let name = FileName(name)
    // What lies deep is brought up and found by the next round.
    for _ in 0..<10_000 {
      guard let folder = try? above.openFolder(name), (try? empty(folder, folder, 0)) != nil else {
        return
      }
      do {
        return try above.remove(name, isFolder: true)
      } catch {
        guard error.code == ENOTEMPTY else { return }
      }
    }
  }

  /// How many folders are held open at once.
  private static let deepest = 100

  /// Removes what it can of a folder's content; throws if there was something and nothing changed.
  private static func empty(
    _ folder: Descriptor,
    _ top: Descriptor,
    _ depth: Int
  ) throws(SystemFailure) {
    let list = try folder.reopen(.folder)
    var failure: SystemFailure?
    var hasChanged = false
    while true {
      let names = try list.nextNames()
      if names.isEmpty { break }
      for (name, _) in names {
        do throws(SystemFailure) {
          try remove(name, of: folder, top, depth)
          hasChanged = true
        } catch {
          failure = error
        }
      }
    }
    if let failure, !hasChanged { throw failure }
  }

  private static func remove(
    _ name: FileName,
    of folder: Descriptor,
    _ top: Descriptor,
    _ depth: Int
  ) throws(SystemFailure) {
    guard try folder.entry(of: name).kind == .folder else {
      return try folder.remove(name, isFolder: false)
    }
    guard depth < deepest else {
      let mark = String(UInt64.random(in: 0 ... .max), radix: 36)
      return try folder.rename(name, to: top, FileName("deep-\(mark)"))
    }
    // Deep parts may have left it; else it is not empty, and that is told.
    try empty(folder.openFolder(name), top, depth + 1)
    try folder.remove(name, isFolder: true)
  }

  private static func sweep(_ above: Descriptor) {
    guard let list = try? above.reopen(.folder) else { return }
    let start = "\(prefix)\(geteuid())-"
    while let names = try? list.nextNames(), !names.isEmpty {
      for (name, _) in names where name.text.hasPrefix(start) {
        guard let left = try? above.openFolder(name).reopen(.folder), (try? left.claim()) != nil
        else { continue }
        // Its claim must hold until it is gone.
        withExtendedLifetime(left) { remove(name.text, in: above) }
      }
    }
  }

  /// Creates a file for an output, and returns its name.
  func createOutput() throws(SystemFailure) -> (file: Descriptor, name: String) {
    while true {
      let mark = String(UInt64.random(in: 0 ... .max), radix: 36)
      let name = "pi-output-\(mark).log"
      do {
        let file = try outputFolder.create(FileName(name), mode: 0o600)
        if let owner { try file.give(to: owner) }
        return (file, name)
      } catch {
        if error.code != EEXIST { throw error }
      }
    }
  }

  func removeOutput(_ name: String) throws(SystemFailure) {
    try outputFolder.remove(FileName(name), isFolder: false)
  }
}

/// Outputs that the host keeps, as the environment sees them.
struct KeptOutputs: Sendable {
  let scratch: HostScratch
  /// Where commands and tools find them.
  let inside: VirtualPath

  func create() throws(FileError) -> (file: Descriptor, path: String) {
    do {
      let made = try scratch.createOutput()
      return (made.file, inside.appending(made.name).text)
    } catch {
      throw FileError(error, inside, "written")
    }
  }

  /// The name of an output by its path; `nil` for other paths.
  func name(of path: VirtualPath) -> String? { path.parent == inside ? path.name : nil }

  func remove(_ name: String, force: Bool) throws(FileError) {
    do {
      try scratch.removeOutput(name)
    } catch {
      if !force || error.code != ENOENT {
        throw FileError(error, inside.appending(name), "removed")
      }
    }
  }
}
