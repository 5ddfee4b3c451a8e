import CPerdureLinux
import Glibc
import PerdureModel

/// How far links may lead.
enum Reach: Int32, Sendable {
  /// Anywhere, as the machine follows them.
  case machine = 0
  /// Not out of the root.
  case beneath = 1
  /// The root is where absolute links begin.
  case root = 2
  /// Nowhere: what has a link in it is refused.
  case noLinks = 3
  /// Not out of the root, and not onto another mount.
  case mount = 4
}

/// What the kernel knows of something in a tree.
struct TreeEntry: Sendable, Equatable {
  /// What it is.
  enum Kind: Sendable { case file, folder, link, other }

  var kind: Kind
  var mode: Int32
  var links: Int64
  var size: Int64
  /// Nanoseconds since 1970.
  var modified: Int64
  var changed: Int64
  var identity: FileIdentity

  init(_ raw: perdure_tree_entry) {
    kind =
      switch UInt32(raw.kind) {
      case PERDURE_KIND_FILE.rawValue: .file
      case PERDURE_KIND_FOLDER.rawValue: .folder
      case PERDURE_KIND_LINK.rawValue: .link
      default: .other
      }
    mode = raw.mode
    links = raw.links
    size = raw.size
    modified = Self.time(raw.seconds, raw.nanoseconds)
    changed = Self.time(raw.changed_seconds, raw.changed_nanoseconds)
    identity = FileIdentity(device: raw.device, inode: raw.inode)
  }

  private static func time(_ seconds: Int64, _ nanoseconds: Int64) -> Int64 {
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? (seconds < 0 ? .min : .max) : whole &+ nanoseconds
  }

  var version: FileVersion {
    FileVersion("\(identity.device).\(identity.inode).\(size).\(modified)")
  }
}

/// Tells files of a machine apart.
struct FileIdentity: Hashable, Sendable {
  var device: UInt64
  var inode: UInt64
}

/// What a descriptor is opened for.
enum OpenMode: Int32, Sendable {
  case read = 0
  case write = 1
  case append = 2
  case folder = 3
}

extension Descriptor {
  /// Opens the folder that is to be the root of a tree.
  static func root(at path: String) throws(SystemFailure) -> Descriptor {
    try Descriptor(returned: unsafe perdure_tree_root(path))
  }

  /// Opens what a path of the machine leads to, for its name only.
  static func anything(at path: String) throws(SystemFailure) -> Descriptor {
    try Descriptor(
      returned: unsafe perdure_tree_open(AT_FDCWD, path, 0, Reach.machine.rawValue)
    )
  }

  /// Opens what a path below this folder leads to, for its name only.
  func open(
    _ path: String,
    link: Bool = false,
    folder: Bool = false,
    reach: Reach
  ) throws(SystemFailure) -> Descriptor {
    try Descriptor(
      returned: unsafe perdure_tree_open(number, path, Self.flags(link, folder), reach.rawValue)
    )
  }

  /// Opens a folder in this one that is no link and no mount.
  func openFolder(_ name: FileName) throws(SystemFailure) -> Descriptor {
    try Descriptor(
      returned: unsafe name.pass { name in
        unsafe perdure_tree_open(number, name, Self.flags(true, true), Reach.mount.rawValue)
      }
    )
  }

  private static func flags(_ link: Bool, _ folder: Bool) -> Int32 {
    (link ? Int32(PERDURE_OPEN_LINK.rawValue) : 0)
      | (folder ? Int32(PERDURE_OPEN_FOLDER.rawValue) : 0)
  }

  /// Opens the regular file or folder that this is, for work.
  func reopen(_ mode: OpenMode) throws(SystemFailure) -> Descriptor {
    try Descriptor(returned: perdure_tree_reopen(number, mode.rawValue))
  }

  func entry() throws(SystemFailure) -> TreeEntry {
    var raw = perdure_tree_entry()
    let result = unsafe perdure_tree_stat(number, &raw)
    if result < 0 { throw SystemFailure(result) }
    return TreeEntry(raw)
  }

  /// What is known of a name in this folder, which is not followed.
  func entry(of name: FileName) throws(SystemFailure) -> TreeEntry {
    var raw = perdure_tree_entry()
    let result = unsafe name.pass { unsafe perdure_tree_stat_at(number, $0, &raw) }
    if result < 0 { throw SystemFailure(result) }
    return TreeEntry(raw)
  }

  /// The text of the link that this is.
  func linkText() throws(SystemFailure) -> String {
    try unsafe text { unsafe perdure_tree_link(number, $0, $1) }
  }

  /// Where the kernel says that this is.
  func systemPath() throws(SystemFailure) -> String {
    try unsafe text { unsafe perdure_tree_path(number, $0, $1) }
  }

  private func text(
    _ body: (UnsafeMutablePointer<CChar>?, Int64) -> Int64
  ) throws(SystemFailure) -> String {
    var buffer = [CChar](repeating: 0, count: 4_096)
    let length = unsafe buffer.withUnsafeMutableBufferPointer {
      unsafe body($0.baseAddress, Int64($0.count))
    }
    guard length >= 0 else { throw SystemFailure(length) }
    return String(decoding: buffer.prefix(Int(length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Creates a regular file in this folder; nothing that exists is opened.
  func create(_ name: FileName, mode: Int32) throws(SystemFailure) -> Descriptor {
    try Descriptor(returned: unsafe name.pass { unsafe perdure_tree_create(number, $0, mode) })
  }

  func makeFolder(_ name: FileName, mode: Int32 = 0o777) throws(SystemFailure) {
    try Self.check(unsafe name.pass { unsafe perdure_tree_make_folder(number, $0, mode) })
  }

  func remove(_ name: FileName, isFolder: Bool) throws(SystemFailure) {
    try Self.check(unsafe name.pass { unsafe perdure_tree_remove(number, $0, isFolder ? 1 : 0) })
  }

  func rename(
    _ name: FileName,
    to folder: Descriptor,
    _ newName: FileName
  ) throws(SystemFailure) {
    try Self.check(
      unsafe name.pass { old in
        unsafe newName.pass { unsafe perdure_tree_rename(number, old, folder.number, $0) }
      }
    )
  }

  private static func check(_ result: Int32) throws(SystemFailure) {
    if result < 0 { throw SystemFailure(result) }
  }

  /// The next names of this open folder; none at its end.
  func nextNames() throws(SystemFailure) -> [(name: FileName, kind: TreeEntry.Kind?)] {
    var buffer = [UInt8](repeating: 0, count: 32_768)
    let length = unsafe buffer.withUnsafeMutableBytes { raw in
      let start = unsafe raw.baseAddress?.assumingMemoryBound(to: CChar.self)
      return unsafe perdure_tree_names(number, start, Int64(raw.count))
    }
    guard length >= 0 else { throw SystemFailure(length) }
    var names: [(name: FileName, kind: TreeEntry.Kind?)] = []
    for item in buffer[..<Int(length)].split(separator: 0, omittingEmptySubsequences: false)
      .dropLast()
    {
      Self.add(item, to: &names)
    }
    return names
  }

  private static func add(
    _ item: ArraySlice<UInt8>,
    to names: inout [(name: FileName, kind: TreeEntry.Kind?)]
  ) {
    // A kind that is not known is a zero, which ends an item of its own.
    guard let first = item.first else { return names.append((FileName(bytes: []), nil)) }
    if let last = names.last, last.name.bytes.isEmpty {
      names[names.count - 1] = (FileName(bytes: item), nil)
      return
    }
    let kind: TreeEntry.Kind =
      switch UInt32(first) {
      case PERDURE_KIND_FILE.rawValue: .file
      case PERDURE_KIND_FOLDER.rawValue: .folder
      case PERDURE_KIND_LINK.rawValue: .link
      default: .other
      }
    names.append((FileName(bytes: item.dropFirst()), kind))
  }

  /// Reads at most `length` bytes; fewer only at the end of the file.
  func read(offset: Int64, length: Int) throws(SystemFailure) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: length)
    var count = 0
    while count < length {
      let result = unsafe bytes.withUnsafeMutableBytes { raw in
        let place = unsafe raw.baseAddress?.advanced(by: count)
        return unsafe perdure_tree_read(
          number,
          place,
          Int64(length - count),
          offset &+ Int64(count)
        )
      }
      guard result >= 0 else { throw SystemFailure(result) }
      if result == 0 { break }
      count += Int(result)
    }
    if count < length { bytes.removeLast(length - count) }
    return bytes
  }

  /// Where a file has content again, from `offset` on, after a hole of zeros; `nil` if there is none.
  func holeEnd(at offset: Int64) -> Int64? {
    // SEEK_DATA, which Glibc hides.
    let place = Int64(lseek(number, Int(offset), 3))
    if place >= 0 { return place > offset ? place : nil }
    // Nothing more: the hole goes on to the end.
    guard errno == ENXIO, let size = try? entry().size, size > offset else { return nil }
    return size
  }

  func write(_ bytes: [UInt8]) throws(SystemFailure) {
    try Self.check(
      unsafe bytes.withUnsafeBytes {
        unsafe perdure_tree_write(number, $0.baseAddress, Int64($0.count))
      }
    )
  }

  func truncate(to size: Int64) throws(SystemFailure) {
    try Self.check(perdure_tree_truncate(number, size))
  }

  func flush() throws(SystemFailure) { try Self.check(perdure_tree_flush(number)) }

  /// Another descriptor of the same thing.
  func duplicate() throws(SystemFailure) -> Descriptor {
    try Descriptor(returned: perdure_tree_duplicate(number))
  }

  /// Gives `file` the mode of this one, and its owner and attributes as far as that is allowed.
  func copyAttributes(to file: Descriptor) { perdure_tree_copy_attributes(number, file.number) }

  /// The kind of file system, as the kernel numbers it.
  var fileSystem: Int64 { perdure_tree_file_system(number) }
}

/// How many LF there are.
func newlines(in bytes: [UInt8]) -> Int {
  Int(
    unsafe bytes.withUnsafeBytes {
      unsafe perdure_tree_count($0.baseAddress, Int64($0.count), 0x0A)
    }
  )
}
