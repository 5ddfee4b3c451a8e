internal import PerdureModel
import PerdureValue
import Synchronization

/// How a call ended.
enum CallOutcome: Sendable {
  case tool(ToolResult)
  case object(JSONObject)
  /// For the benchmark, which measures the border without JSON.
  case bytes([UInt8])
  case failed(PerdureError)
}

/// One piece of output, in the order in which the plugin sent them.
enum OutputFrame: Sendable {
  case text([UInt8])
  case bytes([UInt8])
  case details(JSON?)
  case diagnostic(ToolDiagnostic)
  case skipped(SkippedOutput)
  /// Everything before it has been folded in when this is reached.
  case flush(PluginRequest, UInt64)
}

/// One call of a plugin: what it sends, and the one completion, meet their reader here.
///
/// The plugin's threads put in, the Swift task of the call takes out; neither waits for the other.
final class PluginCall: Sendable {
  /// What the reader takes in one step.
  struct News: Sendable {
    var frames: [OutputFrame] = []
    var credit = 0
    /// What `start` returned if it took the call back.
    var refusal: Int32?
    var outcome: CallOutcome?
  }

  /// Bytes of output that may be under way.
  static let creditWindow = 256 << 10

  /// Takes a completion, and throws if it is not what belongs there.
  typealias Check = @Sendable (JSONObject) throws(BorderProblem) -> Void

  let kind: Kind
  /// Such as "tool grep", for sentences.
  let label: String
  let plugin: String
  let host: (any ToolCallHost)?
  /// What it may ask of the engine; absent for calls that no engine makes.
  let operations: (any CallOperations)?
  /// Where it stands in the engine.
  let place: CallPlace
  /// Whether the plugin's code runs on the thread of whoever calls.
  let isInline: Bool
  /// The deadline of the call.
  private let timer: CallTimer?
  /// Throws if a completion is not what belongs here.
  let check: Check?
  /// Where it stands in the list of calls of its plugin, or -1; belongs to that list.
  let number = Atomic(-1)
  private let state = Mutex(State())

  private struct State {
    var id: UInt64 = 0
    var reason: CancelReason?
    var onCancel: PluginCallback?
    var news = News()
    var hasNews = false
    /// Bytes sent and not yet folded in.
    var underWay = 0
    var reader: CheckedContinuation<News, Never>?
    var requests: Set<UInt64> = []
    /// Those that finish whatever happens; the outcome waits for them.
    var commits: Set<UInt64> = []
    var heldOutcome: CallOutcome?
    var settled = false
    /// Where the plugin's code is, if not in this process.
    var remote: (any RemoteCalls)?
    /// Whether the run of its task is over although it has not been answered.
    var hasEndedRun = false
    var timer: CallTimer?
    var pauses = 0
    /// Made when something of it is needed first, because most calls need none.
    var belongings: CallBelongings?
  }

  /// What the end of a call leaves to whoever ended it.
  struct Leftovers {
    var requests: Set<UInt64>
    var belongings: CallBelongings?
  }

  init(
    kind: Kind,
    label: String,
    plugin: String,
    host: (any ToolCallHost)?,
    operations: (any CallOperations)? = nil,
    place: CallPlace = CallPlace(),
    isInline: Bool = false,
    timer: CallTimer? = nil,
    check: Check? = nil
  ) {
    self.place = place
    self.isInline = isInline
    self.timer = timer
    self.check = check
    self.kind = kind
    self.operations = operations
    self.label = label
    self.plugin = plugin
    self.host = host
  }

  /// Lets the deadline stand still while the host works for the call.
  func pause() {
    state.withLock { state in
      state.pauses += 1
      (state.timer ?? timer)?.pause()
    }
  }

  /// Lets the deadline count again.
  func resume() {
    state.withLock { state in
      state.pauses -= 1
      (state.timer ?? timer)?.resume()
    }
  }

  /// Takes the deadline of a call that was begun without one.
  func adopt(_ timer: CallTimer) {
    state.withLock { state in
      state.timer = timer
      for _ in 0..<max(0, state.pauses) { timer.pause() }
    }
  }

  /// The streams that it was given.
  var streams: StreamTable { belongings.streams }

  /// What was read for a commit that is still to come.
  var transactions: CallTransactions { belongings.transactions }

  /// The files that it has open.
  var files: CallFiles { belongings.files }

  private var belongings: CallBelongings {
    state.withLock { state in
      if let belongings = state.belongings { return belongings }
      let belongings = CallBelongings()
      if state.settled { belongings.close() }
      state.belongings = belongings
      return belongings
    }
  }

  /// Notes that the run of its task is over.
  func endRun() { state.withLock { $0.hasEndedRun = true } }

  /// Whether the run of its task is over although it has not been answered.
  var hasEndedRun: Bool { state.withLock { $0.hasEndedRun } }

  // MARK: The id

  /// Takes the id under which the plugin knows the call; returns why it is already cancelled.
  func bind(_ id: UInt64, _ remote: (any RemoteCalls)? = nil) -> CancelReason? {
    state.withLock {
      $0.id = id
      $0.remote = remote
      return $0.reason
    }
  }

  /// The id, or 0 before the call was started.
  var id: UInt64 { state.withLock { $0.id } }

  // MARK: From the plugin

  /// Takes a frame that costs `bytes` of credit.
  func emit(_ frame: OutputFrame, bytes: Int) -> BorderCode? {
    deliver { state in
      guard !state.settled else { return .stale }
      guard state.underWay + bytes <= Self.creditWindow else { return .wouldBlock }
      state.underWay += bytes
      state.news.credit += bytes
      Self.append(frame, to: &state.news.frames)
      return nil
    }
  }

  /// Bytes that `emit` would take now.
  var credit: Int { state.withLock { Self.creditWindow - $0.underWay } }

  /// Puts `request` behind everything that was emitted; `false` when the call is over.
  func flush(_ request: PluginRequest, _ id: UInt64) -> Bool {
    deliver { state in
      guard !state.settled else { return false }
      state.news.frames.append(.flush(request, id))
      return true
    }
  }

  /// Notes that `start` did not take the call.
  func refused(_ code: Int32) {
    deliver { state in if !state.settled { state.news.refusal = code } }
  }

  /// Ends the call; the first outcome counts.
  @discardableResult func settle(_ outcome: CallOutcome) -> Leftovers {
    deliver { state in
      defer { state.requests = [] }
      let left = Leftovers(requests: state.requests, belongings: state.belongings)
      guard !state.settled else { return left }
      state.settled = true
      state.onCancel = nil
      if state.commits.isEmpty {
        state.news.outcome = outcome
      } else {
        state.heldOutcome = outcome
      }
      return left
    }
  }

  // Adjacent chunks are joined, so that many small ones take no more memory than their bytes.
  private static func append(_ frame: OutputFrame, to frames: inout [OutputFrame]) {
    switch (frames.last, frame) {
    case (.text(var old), .text(let new)):
      frames.removeLast()
      old.append(contentsOf: new)
      frames.append(.text(old))
    case (.bytes(var old), .bytes(let new)):
      frames.removeLast()
      old.append(contentsOf: new)
      frames.append(.bytes(old))
    default: frames.append(frame)
    }
  }

  @discardableResult
  private func deliver<Result>(_ change: (inout State) -> Result) -> Result {
    var reader: CheckedContinuation<News, Never>?
    let result = state.withLock { state in
      let result = change(&state)
      state.hasNews = true
      if state.reader != nil { swap(&reader, &state.reader) }
      return result
    }
    if let reader { reader.resume(returning: state.withLock { Self.take(&$0) }) }
    return result
  }

  // MARK: To the reader

  /// Waits for something to happen and takes all of it.
  func next() async -> News {
    await withCheckedContinuation { continuation in
      let news: News? = state.withLock { state in
        guard state.hasNews else {
          state.reader = continuation
          return nil
        }
        return Self.take(&state)
      }
      if let news { continuation.resume(returning: news) }
    }
  }

  /// Takes what has happened, if the call has ended.
  func takeEnd() -> News? {
    state.withLock { state in
      guard state.news.outcome != nil || state.news.refusal != nil else { return nil }
      return Self.take(&state)
    }
  }

  /// The outcome, if there is one; for the benchmark, which has no reader.
  func takeOutcome() -> CallOutcome? {
    state.withLock { state in
      defer {
        state.news.outcome = nil
        state.settled = false
      }
      return state.news.outcome
    }
  }

  /// Gives back credit for what was folded in.
  func returnCredit(_ bytes: Int) {
    let (id, remote) = state.withLock { state in
      state.underWay -= bytes
      return (state.id, state.settled ? nil : state.remote)
    }
    if bytes > 0 { remote?.giveCredit(bytes, to: id) }
  }

  /// Takes credit for a frame that is kept elsewhere.
  func spend(_ bytes: Int) -> BorderCode? {
    state.withLock { state in
      guard !state.settled else { return .stale }
      guard state.underWay + bytes <= Self.creditWindow else { return .wouldBlock }
      state.underWay += bytes
      return nil
    }
  }

  /// Where the plugin's code is, if not in this process.
  var remote: (any RemoteCalls)? { state.withLock { $0.remote } }

  private static func take(_ state: inout State) -> News {
    defer {
      state.news = News()
      state.hasNews = false
    }
    return state.news
  }

  // MARK: Cancelling

  /// What to do about a cancellation.
  struct Cancellation {
    var id: UInt64
    var reason: CancelReason
    var callback: PluginCallback?
    var requests: Set<UInt64>
    var remote: (any RemoteCalls)?
  }

  /// Notes the first reason; returns what is to be told, or `nil` if there was one before.
  func cancel(_ reason: CancelReason) -> Cancellation? {
    state.withLock { state in
      guard state.reason == nil, !state.settled else { return nil }
      state.reason = reason
      defer { state.onCancel = nil }
      return Cancellation(
        id: state.id,
        reason: reason,
        callback: state.onCancel,
        requests: state.requests.union(state.commits),
        remote: state.remote
      )
    }
  }

  /// Why the call is cancelled, or `nil`.
  var cancelReason: CancelReason? { state.withLock { $0.reason } }

  /// Keeps the callback, or returns it with the reason if the call is cancelled already.
  func onCancel(_ callback: PluginCallback?) -> (PluginCallback, CancelReason)? {
    state.withLock { state in
      if let reason = state.reason, let callback, !state.settled { return (callback, reason) }
      state.onCancel = state.settled ? nil : callback
      return nil
    }
  }

  /// Whether the call is over.
  var isSettled: Bool { state.withLock { $0.settled } }

  // MARK: Requests

  /// Notes an open request; `false` when the call is over.
  func add(request: UInt64, finishesAnyway: Bool = false) -> Bool {
    state.withLock { state in
      guard !state.settled else { return false }
      if finishesAnyway {
        state.commits.insert(request)
      } else {
        state.requests.insert(request)
      }
      return true
    }
  }

  /// Forgets a request that ended.
  func remove(request: UInt64) {
    let isHeld = state.withLock { state in
      state.requests.remove(request)
      state.commits.remove(request)
      return state.heldOutcome != nil && state.commits.isEmpty
    }
    guard isHeld else { return }
    deliver { state in
      state.news.outcome = state.heldOutcome ?? state.news.outcome
      state.heldOutcome = nil
    }
  }

  /// Takes the requests that are still open.
  func takeRequests() -> Set<UInt64> {
    state.withLock { state in
      defer { state.requests = [] }
      return state.requests
    }
  }
}

/// What a call has open at its host, which goes with it.
final class CallBelongings: Sendable {
  let streams = StreamTable()
  let transactions = CallTransactions()
  let files = CallFiles()

  func close() {
    transactions.close()
    streams.closeAll()
    files.closeAll()
  }
}
