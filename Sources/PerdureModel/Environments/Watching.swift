/// What is watched.
public struct WatchTarget: Sendable, Equatable {
  /// What below a recursive target is left out.
  public struct Exclusions: Sendable, Equatable {
    /// Names that begin with a dot.
    public var hidden: Bool
    public var names: Set<String>

    /// Makes exclusions.
    public init(hidden: Bool = false, names: Set<String> = []) {
      self.hidden = hidden
      self.names = names
    }
  }

  /// A file or folder, which need not exist yet.
  public var path: String
  /// Whether everything below a folder counts, not just its own entries.
  public var recursive: Bool
  public var exclude: Exclusions

  /// Makes a target.
  public init(_ path: String, recursive: Bool = false, exclude: Exclusions = Exclusions()) {
    self.path = path
    self.recursive = recursive
    self.exclude = exclude
  }
}

/// What somebody who watches is told.
public enum FileChange: Sendable, Equatable {
  /// These paths, sorted, or something below them may have changed.
  case paths([String])
  /// Anything may have changed.
  case overflow
  /// Nothing will be told any more.
  case failed(FileError)
}

/// A watch that covers its targets.
public protocol FileWatch: Sendable {
  /// How changes are noticed.
  var mode: WatchMode { get }
  /// Ends it: nothing is reported once this has returned; may be called again.
  func close() async
}

/// How a watch notices changes.
public enum WatchMode: String, Sendable {
  /// The system tells of them.
  case native
  /// By looking again and again.
  case polling
}
