import PerdureModel
import Synchronization

/// One command that runs: a thread of its own reads what it puts out, and waits for its end.
final class CommandRun: Sendable {
  /// What a command may use, as far as the host sees to it.
  struct Bounds: Sendable {
    var seconds: Double?
    var output: Int64?
    /// Seconds that a command may take to end that was asked to.
    var patience = 5.0
  }

  /// What the one who takes the output is told.
  enum Event: Sendable {
    case chunk(OutputChunk)
    case ended(Result<ExecutionResult, ExecutionError>)
  }

  private struct State {
    var mailbox: Event?
    var waiter: CheckedContinuation<Event, Never>?
    var isAborted = false
    var failure: String?
  }

  private let state = Mutex(State())
  private let bell: Bell

  init(bell: Bell) { self.bell = bell }

  // MARK: For the one who takes the output

  /// Returns the next chunk, or the end.
  func next() async -> Event {
    await withCheckedContinuation { continuation in
      let event = state.withLock { state -> Event? in
        defer { state.mailbox = nil }
        if state.mailbox == nil { state.waiter = continuation }
        return state.mailbox
      }
      guard let event else { return }
      bell.ring()
      continuation.resume(returning: event)
    }
  }

  /// Kills the command; it ends as aborted.
  func abort() {
    state.withLock { $0.isAborted = true }
    bell.ring()
  }

  /// Kills the command because its output could not be taken.
  func fail(_ message: String) {
    state.withLock { $0.failure = message }
    bell.ring()
  }

  // MARK: For the thread

  private func offer(_ event: Event) {
    let waiter = state.withLock { state -> CheckedContinuation<Event, Never>? in
      guard let waiter = state.waiter else {
        state.mailbox = event
        return nil
      }
      state.waiter = nil
      return waiter
    }
    waiter?.resume(returning: event)
  }

  /// Tells the end, behind what has not been taken yet.
  func end(_ result: Result<ExecutionResult, ExecutionError>) {
    while state.withLock({ $0.mailbox != nil }) {
      bell.silence()
      if state.withLock({ $0.mailbox == nil }) { break }
      _ = Readiness.wait(bell.descriptor, until: nil)
    }
    offer(.ended(result))
  }

  /// What is wanted of the command by now.
  private var demands: (isFree: Bool, isAborted: Bool, failure: String?) {
    state.withLock { ($0.mailbox == nil, $0.isAborted, $0.failure) }
  }

  /// Reads and waits until the command is over; blocks.
  func follow(
    _ process: any StartedCommand,
    _ options: ExecutionOptions,
    _ bounds: Bounds,
    _ spill: OutputSpill?
  ) -> Result<ExecutionResult, ExecutionError> {
    var progress = Progress(process, options, bounds, spill)
    while true {
      bell.silence()
      let (isFree, isAborted, failure) = demands
      if isAborted { progress.stop(.aborted) }
      if let failure { progress.stop(.callback(failure)) }
      progress.look()
      if isFree, let chunk = progress.nextChunk() {
        offer(.chunk(chunk))
        continue
      }
      if let result = progress.result { return result }
      progress.wait(bell)
    }
  }
}

extension CommandRun {
  /// How far a command has come.
  private struct Progress {
    /// Why it was killed.
    enum Stop {
      case aborted
      case timeout
      case callback(String)
      case spill(String)
      case output
    }

    private static let grace: Int64 = 100_000_000
    private static let longestDrain: Int64 = 1_000_000_000

    private let process: any StartedCommand
    private let bounds: Bounds
    private var received: Int64 = 0
    private let deadline: Int64?
    private let patience: Int64
    private var spill: OutputSpill?
    private var queue: OutputQueue
    private var output: Descriptor?
    private var errors: Descriptor?
    private var ending: CommandEnd?
    private var isDestroyed = false
    private var lastActivity: Int64 = 0
    private var stopped: Stop?
    private var stoppedAt: Int64 = 0
    /// The time of the last look, by which everything is judged until the next one.
    private var now = monotonicNanoseconds()
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)

    init(
      _ process: any StartedCommand,
      _ options: ExecutionOptions,
      _ bounds: Bounds,
      _ spill: OutputSpill?
    ) {
      self.process = process
      self.bounds = bounds
      self.spill = spill
      queue = OutputQueue(window: options.window)
      output = process.output
      errors = process.errors
      patience = Int64(bounds.patience * 1_000_000_000)
      deadline = bounds.seconds.map { seconds in
        monotonicNanoseconds() + Int64(seconds * 1_000_000_000)
      }
    }

    mutating func stop(_ reason: Stop) {
      guard stopped == nil else { return }
      stopped = reason
      stoppedAt = monotonicNanoseconds()
      switch reason {
      case .timeout: process.kill()
      case .output: destroy()
      default:
        process.kill()
        queue.discard()
      }
    }

    private mutating func destroy() {
      isDestroyed = true
      process.destroy()
    }

    /// Looks what there is, without waiting.
    mutating func look() {
      now = monotonicNanoseconds()
      if let deadline, now >= deadline, ending == nil || !isDrained { stop(.timeout) }
      if stopped != nil, !isDestroyed, ending == nil, now - stoppedAt >= patience { destroy() }
      read(.stdout)
      read(.stderr)
      if ending == nil, let end = process.end() {
        ending = end
        lastActivity = now
      }
    }

    private mutating func read(_ stream: OutputChunk.Stream) {
      guard let pipe = stream == .stdout ? output : errors else { return }
      while mayRead {
        guard let bytes = readPipe(pipe, into: &buffer) else { return }
        guard !bytes.isEmpty else {
          if stream == .stdout { output = nil } else { errors = nil }
          if !isDiscarding { queue.end(stream) }
          return
        }
        lastActivity = monotonicNanoseconds()
        received += Int64(bytes.count)
        if let most = bounds.output, received > most { stop(.output) }
        do {
          try spill?.take(bytes)
        } catch {
          stop(.spill(error.message))
        }
        if !isDiscarding { queue.add(bytes, stream) }
      }
    }

    private var isDiscarding: Bool {
      switch stopped {
      case nil, .timeout, .output: false
      default: true
      }
    }

    private var mayRead: Bool { isDiscarding || !queue.isFull }

    mutating func nextChunk() -> OutputChunk? {
      guard let due = queue.due, due <= now || ending != nil else { return nil }
      return queue.take(now: now)
    }

    /// Whether nothing more comes: what still holds the pipes is not waited for.
    private var isDrained: Bool {
      guard ending != nil else { return false }
      if output == nil, errors == nil { return true }
      if stopped != nil, now - stoppedAt >= Self.longestDrain { return true }
      return mayRead && now - lastActivity >= Self.grace
    }

    var result: Result<ExecutionResult, ExecutionError>? {
      guard let ending, isDrained, queue.isEmpty else { return nil }
      func failed(
        _ code: ExecutionError.Code,
        _ message: String,
        hint: String? = nil,
        limit: String? = nil
      ) -> Result<ExecutionResult, ExecutionError> {
        let path = spill?.path
        return .failure(
          ExecutionError(
            code,
            message,
            hint: hint,
            spillPath: path,
            limit: limit,
            confinement: ending.confinement
          )
        )
      }
      switch stopped {
      case .aborted: return failed(.aborted, "the command was cancelled")
      case .timeout:
        let seconds = bounds.seconds ?? 0
        return failed(
          .timeout,
          "the command took longer than \(seconds.formattedSeconds) seconds",
          hint: "give it more time, or less to do"
        )
      case .callback(let message):
        return failed(.callbackError, "the output of the command was not taken: \(message)")
      case .spill(let message): return failed(.unknown, message)
      case .output:
        return failed(
          .unknown,
          "the command was ended because it put out more than \(bounds.output ?? 0) bytes",
          hint: "let it write into a file, or put out less",
          limit: "output"
        )
      case nil:
        if let failure = ending.failure {
          return failed(failure.code, failure.message, hint: failure.hint, limit: failure.limit)
        }
        return .success(
          ExecutionResult(
            exitCode: ending.exitCode,
            spillPath: spill?.path,
            spillTruncated: spill?.isTruncated ?? false,
            confinement: ending.confinement
          )
        )
      }
    }

    /// Waits until there is something to do.
    func wait(_ bell: Bell) {
      var times: [Int64] = []
      if stopped == nil, let deadline { times.append(deadline) }
      if stopped != nil, ending == nil, !isDestroyed { times.append(stoppedAt + patience) }
      if ending != nil {
        times.append(lastActivity + Self.grace)
        if stopped != nil { times.append(stoppedAt + Self.longestDrain) }
      }
      if let due = queue.due { times.append(due) }
      _ = Readiness.wait(
        bell.descriptor,
        mayRead ? output : nil,
        mayRead ? errors : nil,
        ending == nil ? process.news : nil,
        // What was due at the last look was done then, or waits for the bell.
        until: times.filter { $0 > now }.min()
      )
    }
  }
}

extension Double {
  /// Without a fraction where there is none.
  var formattedSeconds: String {
    self == rounded() && magnitude < 1e15 ? "\(Int64(self))" : "\(self)"
  }
}
