import Glibc
import PerdureModel

/// Paths that stay as they are, with all below them.
struct ProtectedPaths: Sendable {
  /// As they are compared: some file systems take names for the same that differ in case, and in how
  /// their characters are composed, and so do strings.
  private let paths: [(path: VirtualPath, folded: [String])]

  init(_ paths: [VirtualPath]) { self.paths = paths.map { ($0, Self.fold($0)) } }

  var all: [VirtualPath] { paths.map { $0.path } }

  private static func fold(_ path: VirtualPath) -> [String] { path.names.map { $0.lowercased() } }

  /// Whether a place is one of them, or below one.
  func holds(_ path: VirtualPath) -> Bool {
    let names = Self.fold(path)
    return paths.contains { names.starts(with: $0.folded) }
  }

  /// Those that are below a place.
  func below(_ path: VirtualPath) -> [VirtualPath] {
    let names = Self.fold(path)
    return paths.filter { $0.folded.count > names.count && $0.folded.starts(with: names) }
      .map { $0.path }
  }
}

extension FileTree {
  static let kernelFiles: Int64 = 0x9FA0

  /// Throws if what was opened by a path is hidden, and not the empty one that lies over it: the kernel
  /// takes that away when the host removes or replaces what is below.
  func requireShown(_ file: Descriptor, _ path: VirtualPath) throws(FileError) {
    guard !hidden.all.isEmpty else { return }
    let (entry, own) = try asking(path) { () throws(SystemFailure) in
      (try file.entry(), try root.entry())
    }
    if entry.identity.device == own.identity.device { return }
    let place = try canonical(file, path)
    guard !hidden.holds(path), !hidden.holds(place), !hidden.holds(place.withoutRemark) else {
      throw FileError(
        .permissionDenied,
        "\(path.text.quotedForMessage) is hidden, or leads to what is",
        path: path.text
      )
    }
  }

  /// Throws if what was opened by a path is protected, wherever links led.
  func requireChangeable(_ file: Descriptor, _ path: VirtualPath) throws(FileError) {
    guard !protection.all.isEmpty else { return }
    if protection.holds(try canonical(file, path)) { throw FileError.protected(path) }
  }

  /// Throws if a name in a folder is protected, or must not become or cease to be what leads to something
  /// that is.
  func requireChangeable(
    _ name: String,
    in folder: Descriptor,
    _ path: VirtualPath,
    _ doing: String
  ) throws(FileError) {
    guard !protection.all.isEmpty else { return }
    let place = try canonical(folder, path).appending(name)
    if protection.holds(place) { throw FileError.protected(path) }
    // A folder on the way may be made; anything else there would be taken for what is protected.
    guard doing != "created" else { return }
    for below in protection.below(place) {
      let isThere = (try? find(below, link: true)) != nil
      if isThere || doing == "written" || doing == "replaced" { throw FileError.protected(path) }
    }
  }
}

extension VirtualPath {
  /// Where something was that was removed meanwhile: the kernel adds a remark to the last name.
  fileprivate var withoutRemark: VirtualPath {
    let remark = " (deleted)"
    guard let name, name.hasSuffix(remark) else { return self }
    return parent.appending(String(name.dropLast(remark.count)))
  }
}

extension FileError {
  fileprivate static func protected(_ path: VirtualPath) -> FileError {
    FileError(
      .permissionDenied,
      "\(path.text.quotedForMessage) is protected or hidden, or leads to what is",
      path: path.text,
      hint: "what programs outside of the sandbox run or obey, or what is hidden, is left as it is"
    )
  }
}
