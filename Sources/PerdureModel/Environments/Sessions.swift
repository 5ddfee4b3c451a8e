/// A size of a terminal, in characters.
public struct TerminalSize: Sendable, Equatable {
  public var rows: UInt16
  public var columns: UInt16

  /// Makes a size.
  public init(rows: UInt16 = 24, columns: UInt16 = 80) {
    self.rows = rows
    self.columns = columns
  }
}

/// How a command is run in the background.
public struct SessionOptions: Sendable, Equatable {
  /// Where it runs; absent: the environment's own folder.
  public var cwd: String?
  /// Variables that are added.
  public var variables: [String: String]
  /// Whether it has the variables that the environment is configured to give.
  public var inheritsVariables: Bool
  /// In seconds; absent: what the environment gives a session.
  public var timeout: Double?
  /// The terminal that it has as its three streams; absent: it has pipes.
  public var terminal: TerminalSize?
  /// How much of its output is kept for those who read later; older output is counted only.
  public var keptBytes: Int

  /// Makes options.
  public init(
    cwd: String? = nil,
    variables: [String: String] = [:],
    inheritsVariables: Bool = true,
    timeout: Double? = nil,
    terminal: TerminalSize? = nil,
    keptBytes: Int = 1 << 20
  ) {
    self.cwd = cwd
    self.variables = variables
    self.inheritsVariables = inheritsVariables
    self.timeout = timeout
    self.terminal = terminal
    self.keptBytes = keptBytes
  }
}

/// How far somebody has read the output of a session.
public struct SessionPosition: Sendable, Hashable {
  /// Bytes of text before it, of both streams.
  public var bytes: Int64
  /// Newlines before it.
  public var newlines: Int64

  /// Makes a position; only those that reads have returned are exact.
  public init(bytes: Int64, newlines: Int64) {
    self.bytes = bytes
    self.newlines = newlines
  }

  /// Before everything.
  public static let start = SessionPosition(bytes: 0, newlines: 0)
}

/// What a session put out behind a position.
public struct SessionOutput: Sendable, Equatable {
  /// In the order of arrival; what is not kept any more is counted at the first, which may be empty.
  public var chunks: [OutputChunk]
  /// Behind all of them.
  public var position: SessionPosition
  /// How the command ended; absent: it runs, or there is more to read than was returned.
  public var end: SessionEnd?

  /// Makes an output.
  public init(chunks: [OutputChunk], position: SessionPosition, end: SessionEnd? = nil) {
    self.chunks = chunks
    self.position = position
    self.end = end
  }
}

/// How the command of a session ended.
public struct SessionEnd: Sendable, Equatable {
  /// 128 and the number of the signal for one that a signal ended.
  public var exitCode: Int32
  /// Why it did not end by itself, as a limit or `aborted` after `stop`; absent: it did.
  public var failure: ExecutionError?
  /// What held it back; absent: what the environment says of itself.
  public var confinement: Confinement?

  /// Makes an end.
  public init(
    exitCode: Int32,
    failure: ExecutionError? = nil,
    confinement: Confinement? = nil
  ) {
    self.exitCode = exitCode
    self.failure = failure
    self.confinement = confinement
  }
}

/// A command that outlives the call that started it, and ends with its environment at the latest.
///
/// All that it started ends with it. It is not durable: a host that ends, however, ends it.
public protocol CommandSession: Sendable {
  /// Unlike that of any other session, also of another host.
  var id: String { get }
  /// Whether it has a terminal.
  var hasTerminal: Bool { get }
  /// How it ended, once its output is there as a whole; absent: it runs.
  var end: SessionEnd? { get }
  /// Returns what there is behind a position, at once.
  func output(after position: SessionPosition) -> SessionOutput
  /// Returns what there is behind a position once there is something, the command has ended, the task
  /// is cancelled, or after some seconds.
  func output(after position: SessionPosition, within seconds: Double) async -> SessionOutput
  /// Has the command read these bytes next; returns before it has.
  ///
  /// Throws `session_ended` if nobody reads any more, `unknown` if too much waits to be read already.
  func write(_ bytes: [UInt8]) throws(ExecutionError)
  /// Lets the command find the end of its input behind what was written.
  func endInput() throws(ExecutionError)
  /// Gives its terminal another size; without one `not_supported`.
  func resize(_ size: TerminalSize) throws(ExecutionError)
  /// Sends a signal to all processes of the command.
  func signal(_ number: UInt8) throws(ExecutionError)
  /// Asks all processes to end, makes those that did not, and returns how the command ended.
  func stop() async -> SessionEnd
  /// Returns how it ended, once it has.
  func wait() async -> SessionEnd
}
