/// What is to be run.
public enum EnvironmentCommand: Sendable, Equatable {
  /// A line for the shell of the environment.
  case shell(String)
  /// A program and its arguments, which no shell looks at.
  case arguments([String])
}

/// How a command is run that its call waits for.
public struct ExecutionOptions: Sendable, Equatable {
  /// From when on the whole output is kept in a file.
  public struct Spill: Sendable, Equatable {
    public var afterBytes: Int
    public var afterLines: Int
    /// How large the file may become; what follows is counted only.
    public var maxBytes: Int64

    /// Makes thresholds.
    public init(afterBytes: Int, afterLines: Int, maxBytes: Int64 = 64 << 20) {
      self.afterBytes = afterBytes
      self.afterLines = afterLines
      self.maxBytes = maxBytes
    }
  }

  /// Where it runs; absent: the environment's own folder.
  public var cwd: String?
  /// Variables that are added.
  public var variables: [String: String]
  /// Whether it has the variables that the environment is configured to give.
  public var inheritsVariables: Bool
  /// In seconds; absent: as long as it takes.
  public var timeout: Double?
  public var spill: Spill?
  /// How much output is shown; what lies before it may be skipped.
  public var window: OutputWindowHint?

  /// Makes options.
  public init(
    cwd: String? = nil,
    variables: [String: String] = [:],
    inheritsVariables: Bool = true,
    timeout: Double? = nil,
    spill: Spill? = nil,
    window: OutputWindowHint? = nil
  ) {
    self.cwd = cwd
    self.variables = variables
    self.inheritsVariables = inheritsVariables
    self.timeout = timeout
    self.spill = spill
    self.window = window
  }

  /// The longest timeout, in seconds.
  public static let maxTimeout = 2_147_483.647
}

/// A piece of a command's output.
public struct OutputChunk: Sendable, Equatable {
  /// Where it came from.
  public enum Stream: String, Sendable { case stdout, stderr }

  public var stream: Stream
  public var text: String
  /// Output that was left out immediately before, of either stream.
  public var skipped: SkippedOutput?

  /// Makes a chunk.
  public init(_ stream: Stream, _ text: String, skipped: SkippedOutput? = nil) {
    self.stream = stream
    self.text = text
    self.skipped = skipped
  }
}

/// How a command ended.
public struct ExecutionResult: Sendable, Equatable {
  /// 128 and the number of the signal for one that a signal ended.
  public var exitCode: Int32
  /// Where the whole output is, if it was kept in a file.
  public var spillPath: String?
  /// Whether the file was full before the output ended.
  public var spillTruncated: Bool
  /// What held the command back; absent: what the environment says of itself.
  public var confinement: Confinement?

  /// Makes a result.
  public init(
    exitCode: Int32,
    spillPath: String? = nil,
    spillTruncated: Bool = false,
    confinement: Confinement? = nil
  ) {
    self.exitCode = exitCode
    self.spillPath = spillPath
    self.spillTruncated = spillTruncated
    self.confinement = confinement
  }
}
