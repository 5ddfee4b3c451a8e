/// What an environment knows of a file, a folder or a symbolic link.
public struct FileInfo: Sendable, Equatable {
  /// What it is; nothing else is shown.
  public enum Kind: String, Sendable { case file, directory, symlink }

  public var name: String
  /// The absolute path.
  public var path: String
  public var kind: Kind
  /// In bytes.
  public var size: Int64
  /// The last change, in milliseconds since 1970.
  public var mtimeMs: Int64
  /// Tells one state of a file from another; absent where the environment cannot.
  public var version: FileVersion?
  /// Where a symbolic link leads, as it says itself.
  public var target: String?

  /// Makes a description.
  public init(
    name: String,
    path: String,
    kind: Kind,
    size: Int64,
    mtimeMs: Int64,
    version: FileVersion? = nil,
    target: String? = nil
  ) {
    self.name = name
    self.path = path
    self.kind = kind
    self.size = size
    self.mtimeMs = mtimeMs
    self.version = version
    self.target = target
  }
}

/// Which file something is and in which state; two are equal if nothing has happened in between.
public struct FileVersion: Hashable, Sendable {
  /// What the environment compares; it means nothing to others.
  public var mark: String

  /// Makes a version.
  public init(_ mark: String) { self.mark = mark }
}

/// A part of a folder's entries.
public struct FolderPage: Sendable, Equatable {
  public var entries: [FileInfo]
  /// Whether there are no more.
  public var isLast: Bool

  /// Makes a page.
  public init(entries: [FileInfo], isLast: Bool) {
    self.entries = entries
    self.isLast = isLast
  }
}

/// One opened regular file, which stays the same one whatever happens to its name.
public protocol FileReader: Sendable {
  /// What was known when the file was asked last.
  func info() async throws(FileError) -> FileInfo
  /// Returns at most `length` bytes from `offset` on; fewer only at the end of the file.
  ///
  /// Throws `invalid` for negative numbers and after `close`.
  func read(offset: Int64, length: Int) async throws(FileError) -> [UInt8]
  /// Finds lines, counted from 0, in one pass that holds a bounded part of the file.
  ///
  /// Throws `invalid` for an empty or negative range and after `close`.
  func scanLines(from start: Int, to end: Int?) async throws(FileError) -> LineScan
  /// Lets go of the file; may be called again.
  func close() async
}

/// One opened folder whose entries are read page by page.
public protocol FolderReader: Sendable {
  /// Returns the next entries in the order of the file system, at most `maxEntries` of them.
  ///
  /// Those removed meanwhile and those of other kinds are passed over; after the last page come
  /// empty ones. Throws `invalid` for a number below 1 and after `close`.
  func next(_ maxEntries: Int) async throws(FileError) -> FolderPage
  /// Lets go of the folder; may be called again.
  func close() async
}

/// What a listing of a tree may cost and leaves out.
public struct ListingBounds: Sendable, Equatable {
  public var maxEntries: Int
  /// Each entry costs the bytes of its path and two more.
  public var maxBytes: Int
  public var timeoutMs: Int
  /// Whether names that begin with a dot are listed; `.git` never is.
  public var hidden: Bool
  /// Whether what a work tree of git ignores is left out.
  public var gitignore: Bool
  /// Names that are left out, with all below them.
  public var exclude: [String]

  /// Makes bounds.
  public init(
    maxEntries: Int,
    maxBytes: Int = 1 << 20,
    timeoutMs: Int = 10_000,
    hidden: Bool = true,
    gitignore: Bool = true,
    exclude: [String] = []
  ) {
    self.maxEntries = maxEntries
    self.maxBytes = maxBytes
    self.timeoutMs = timeoutMs
    self.hidden = hidden
    self.gitignore = gitignore
    self.exclude = exclude
  }
}

/// The entries below a folder: depth first, names by bytes, folders before what they hold.
public struct FileListing: Sendable, Equatable {
  /// One entry of a listing.
  public struct Entry: Sendable, Equatable {
    /// The path below the folder, with `/` between names.
    public var path: String
    public var kind: FileInfo.Kind

    /// Makes an entry.
    public init(path: String, kind: FileInfo.Kind) {
      self.path = path
      self.kind = kind
    }
  }

  public var entries: [Entry]
  /// Whether a bound was reached before the end.
  public var truncated: Bool

  /// Makes a listing.
  public init(entries: [Entry], truncated: Bool) {
    self.entries = entries
    self.truncated = truncated
  }
}
