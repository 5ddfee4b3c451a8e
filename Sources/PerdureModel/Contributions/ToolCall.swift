public import PerdureValue

/// One running call: its arguments and what it may ask of the host.
///
/// Everything is a value but `host`, which stops answering when the call is over.
public struct ToolCall: Sendable {
  /// The provider's id of the call; not unique in a store.
  public var callId: JSONString
  public var conversationId: ConversationID
  public var taskId: TaskID
  public var arguments: JSON
  public var replay: ReplayPolicy
  /// Whether a crash cut off an earlier run of this very call.
  public var recovered: Bool
  /// Present for tools that keep the tail of their output.
  public var outputWindow: OutputWindowHint?
  /// When the call is cancelled, on the host's monotonic clock, in nanoseconds.
  public var deadline: Int64
  /// The files and processes of the conversation; absent where the host has none for it.
  public var env: (any Environment)?
  public var host: any ToolCallHost
  /// The call of another tool within which this one is made.
  package var parent: HookedCall.Parent?
  /// Present for calls that the engine makes; copies keep it.
  package var invocation: (any ToolCallInvocation)?

  /// Makes a call.
  public init(
    callId: JSONString,
    conversationId: ConversationID,
    taskId: TaskID,
    arguments: JSON,
    replay: ReplayPolicy,
    recovered: Bool,
    outputWindow: OutputWindowHint?,
    deadline: Int64,
    host: any ToolCallHost
  ) {
    self.callId = callId
    self.conversationId = conversationId
    self.taskId = taskId
    self.arguments = arguments
    self.replay = replay
    self.recovered = recovered
    self.outputWindow = outputWindow
    self.deadline = deadline
    self.host = host
  }
}

/// How much output is shown and how often, for producers that can leave the rest out.
public struct OutputWindowHint: Sendable, Equatable {
  public var maxBytes: Int
  public var maxLines: Int
  public var minIntervalMs: Int
  public var bytesPerSecond: Int

  /// Makes a hint.
  public init(maxBytes: Int, maxLines: Int, minIntervalMs: Int, bytesPerSecond: Int) {
    self.maxBytes = maxBytes
    self.maxLines = maxLines
    self.minIntervalMs = minIntervalMs
    self.bytesPerSecond = bytesPerSecond
  }
}

/// Why a call is cancelled; the raw values are those of the plugin ABI.
public enum CancelReason: UInt32, Sendable {
  case abort = 1
  case deadline = 2
  case closing = 3
  case drain = 4
  case parent = 5
  case obsolete = 6
}

/// Output that a producer left out immediately before a chunk.
public struct SkippedOutput: Sendable, Equatable {
  public var bytes: Int
  public var newlines: Int
  public var endsWithNewline: Bool

  /// Makes a description of what was left out.
  public init(bytes: Int, newlines: Int, endsWithNewline: Bool) {
    self.bytes = bytes
    self.newlines = newlines
    self.endsWithNewline = endsWithNewline
  }
}

/// What a running call may ask of the engine.
///
/// Every member may be called from any thread.
///
/// After the call is over all throwing members throw `invocationEnded`. The call's Swift task is
/// cancelled when the call is; `cancelReason` says why.
public protocol ToolCallHost: Sendable {
  /// Why the call is being cancelled, or `nil`.
  var cancelReason: CancelReason? { get }
  /// Takes text of the output; returns at once.
  func output(_ text: JSONString, skipped: SkippedOutput?) throws
  /// Takes bytes of the output, decoded as UTF-8 across chunks; returns at once.
  func output(bytes: [UInt8], skipped: SkippedOutput?) throws
  /// Adds a diagnostic to the result.
  func diagnostic(_ diagnostic: ToolDiagnostic) throws
  /// Replaces the details shown while the call runs.
  func details(_ value: JSON?) throws
  /// Returns when everything reported so far is committed and on disk.
  func flushOutput() async throws
  /// Returns the text that the model would see now, and whether some was dropped.
  func retainedOutput() throws -> (text: String, truncated: Bool)
  /// Returns when everything staged before is on disk.
  func barrier() async throws
  /// The settings as they are now.
  func settings() throws -> JSON
  /// Milliseconds since 1970 and monotonic nanoseconds.
  func clock() -> (now: Int64, monotonic: Int64)
  /// Returns after this time on the host's clock, or earlier when the call is cancelled.
  func sleep(milliseconds: Int64) async throws
  /// Sends a report to the host.
  func report(_ message: String)
  /// Calls another tool; see `ToolCall.executeTool`.
  func executeTool(
    _ name: String,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) async throws -> NestedToolResult
}
