/// The files and processes that tools may work with.
///
/// Paths are absolute, or relative to `cwd`. An operation of a task that is cancelled already throws
/// `aborted` and does nothing. The members in the extension are made of these; the conformance suite
/// of the test kit says what each has to do.
public protocol Environment: Sendable {
  /// Environments with equal ids see the same files at the same paths.
  var id: String { get }
  /// The absolute path against which relative ones count.
  var cwd: String { get }
  /// What it keeps tools and commands from.
  var confinement: Confinement { get }
  /// Whether it runs commands.
  var runsCommands: Bool { get }
  /// Whether it runs commands in the background.
  var hasSessions: Bool { get }

  /// Returns the absolute path without `.`, `..` and doubled `/`; looks at no file.
  func absolutePath(_ path: String) throws(FileError) -> String
  /// Returns the absolute path without symbolic links of what exists; else `notFound`.
  func canonicalPath(_ path: String) async throws(FileError) -> String
  /// Returns what is known of a file, folder or link, without following the link; other kinds are
  /// `invalid`.
  func fileInfo(_ path: String) async throws(FileError) -> FileInfo
  /// Opens a regular file; other kinds, and with `noFollow` a link at the end, are `invalid`.
  func openFile(_ path: String, noFollow: Bool) async throws(FileError) -> any FileReader
  /// Opens a folder for its entries.
  func openFolder(_ path: String) async throws(FileError) -> any FolderReader
  /// Lets a file have exactly these bytes, at once, and creates it and the folders above it.
  ///
  /// With `expecting` only if it is still that file in that state; else a `conflict`.
  func writeFile(
    _ path: String,
    _ bytes: [UInt8],
    expecting: FileVersion?
  ) async throws(FileError)
  /// Adds bytes to the end of a file, and creates it and the folders above it.
  func appendFile(_ path: String, _ bytes: [UInt8]) async throws(FileError)
  /// Cuts a file, or fills it with zeros, to this size.
  func truncateFile(_ path: String, to size: Int64) async throws(FileError)
  /// Returns when the content of a file is on disk.
  func flushFile(_ path: String) async throws(FileError)
  /// Gives a file or folder another path; a file at that path is replaced.
  func rename(_ path: String, to newPath: String) async throws(FileError)
  /// Creates a folder; with `recursive` those above it too, and one that exists is no error.
  func createFolder(_ path: String, recursive: Bool) async throws(FileError)
  /// Removes a file, a link or an empty folder; with `recursive` also what a folder holds, with
  /// `force` nothing that is missing is an error.
  func remove(_ path: String, recursive: Bool, force: Bool) async throws(FileError)
  /// Creates an empty folder with a name of its own and returns its path.
  func createTemporaryFolder(prefix: String) async throws(FileError) -> String
  /// Creates an empty file with a name of its own and returns its path.
  func createTemporaryFile(
    prefix: String,
    suffix: String
  ) async throws(FileError) -> String
  /// Returns once changes of the targets are noticed; `onChange` is called one at a time.
  func watch(
    _ targets: [WatchTarget],
    _ onChange: @escaping @Sendable (FileChange) -> Void
  ) async throws(FileError) -> any FileWatch
  /// Lists what is below a folder, within bounds.
  func listFiles(_ path: String, _ bounds: ListingBounds) async throws(FileError) -> FileListing
  /// Runs a command and returns how it ended, once its output has been taken.
  ///
  /// `onOutput` is called one at a time and holds the command up while it works; nothing comes after
  /// the end. Cancelling the task kills the command.
  func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async throws(ExecutionError) -> ExecutionResult
  /// Starts a command that outlives this call and returns once it runs; without sessions
  /// `not_supported`.
  func startSession(
    _ command: EnvironmentCommand,
    _ options: SessionOptions
  ) async throws(ExecutionError) -> any CommandSession
  /// Returns a session of this environment that runs, or ended not long ago; else `nil`.
  func session(_ id: String) -> (any CommandSession)?
  /// Kills all commands that run, also sessions and those that are being started.
  func cleanup() async
}

extension Environment {
  public var runsCommands: Bool { false }
  public var hasSessions: Bool { false }

  public func watch(
    _ targets: [WatchTarget],
    _ onChange: @escaping @Sendable (FileChange) -> Void
  ) async throws(FileError) -> any FileWatch {
    throw FileError(.notSupported, "the environment \(id) cannot watch files")
  }

  public func listFiles(
    _ path: String,
    _ bounds: ListingBounds
  ) async throws(FileError) -> FileListing {
    throw FileError(.notSupported, "the environment \(id) cannot list whole trees", path: path)
  }

  public func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async throws(ExecutionError) -> ExecutionResult {
    throw ExecutionError(
      .shellUnavailable,
      "the environment \(id) runs no commands",
      hint: "work with its files, or open the store with an environment that has a shell"
    )
  }

  public func startSession(
    _ command: EnvironmentCommand,
    _ options: SessionOptions
  ) async throws(ExecutionError) -> any CommandSession {
    throw ExecutionError(
      .notSupported,
      "the environment \(id) runs no commands in the background",
      hint: "run it in the foreground, with a timeout"
    )
  }

  public func session(_ id: String) -> (any CommandSession)? { nil }

  public func cleanup() async {}
}

/// For which conversation an environment is asked.
public struct EnvironmentTarget: Sendable {
  public var conversationId: ConversationID
  /// The folder that the conversation has chosen, as `configure` takes it.
  public var cwd: String?
  /// Reads of what is on disk, for as long as the environment is being made.
  public var read: any ContributionReads

  /// Makes a target.
  public init(conversationId: ConversationID, cwd: String?, read: any ContributionReads) {
    self.conversationId = conversationId
    self.cwd = cwd
    self.read = read
  }
}

/// Makes the environment of a conversation whenever one is needed; it should keep those it has made.
public typealias EnvironmentMaker =
  @Sendable (EnvironmentTarget) async throws -> (any Environment)?
