import PerdureModel
import Synchronization

/// One command that runs: a thread of its own reads what it puts out, and waits for its end.
final class CommandRun: Sendable {
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
    _ process: StartedProcess,
    _ options: ExecutionOptions,
    _ spill: OutputSpill?
  ) -> Result<ExecutionResult, ExecutionError> {
    var progress = Progress(process, options, spill)
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
    }

    private static let grace: Int64 = 100_000_000
    private static let longestDrain: Int64 = 1_000_000_000

    private let process: StartedProcess
    private let options: ExecutionOptions
    private let deadline: Int64?
    private var spill: OutputSpill?
    private var queue: OutputQueue
    private var output: Descriptor?
    private var errors: Descriptor?
    private var exitCode: Int32?
    private var lastActivity: Int64 = 0
    private var stopped: Stop?
    private var stoppedAt: Int64 = 0
    /// The time of the last look, by which everything is judged until the next one.
    private var now = monotonicNanoseconds()
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)

    init(_ process: StartedProcess, _ options: ExecutionOptions, _ spill: OutputSpill?) {
      self.process = process
      self.options = options
      self.spill = spill
      queue = OutputQueue(window: options.window)
      output = process.output
      errors = process.errors
      deadline = options.timeout.map { seconds in
        monotonicNanoseconds() + Int64(seconds * 1_000_000_000)
      }
    }

    mutating func stop(_ reason: Stop) {
      guard stopped == nil else { return }
      stopped = reason
      stoppedAt = monotonicNanoseconds()
      process.kill()
      if case .timeout = reason { return }
      queue.discard()
    }

    /// Looks what there is, without waiting.
    mutating func look() {
      now = monotonicNanoseconds()
      if let deadline, now >= deadline, exitCode == nil || !isDrained { stop(.timeout) }
      read(.stdout)
      read(.stderr)
      if exitCode == nil, let code = process.exitCode {
        exitCode = code
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
      case nil, .timeout: false
      default: true
      }
    }

    private var mayRead: Bool { isDiscarding || !queue.isFull }

    mutating func nextChunk() -> OutputChunk? {
      guard let due = queue.due, due <= now || exitCode != nil else { return nil }
      return queue.take(now: now)
    }

    /// Whether nothing more comes: what still holds the pipes is not waited for.
    private var isDrained: Bool {
      guard exitCode != nil else { return false }
      if output == nil, errors == nil { return true }
      if stopped != nil, now - stoppedAt >= Self.longestDrain { return true }
      return mayRead && now - lastActivity >= Self.grace
    }

    var result: Result<ExecutionResult, ExecutionError>? {
      guard let exitCode, isDrained, queue.isEmpty else { return nil }
      func failed(
        _ code: ExecutionError.Code,
        _ message: String,
        hint: String? = nil
      ) -> Result<ExecutionResult, ExecutionError> {
        .failure(ExecutionError(code, message, hint: hint, spillPath: spill?.path))
      }
      switch stopped {
      case .aborted: return failed(.aborted, "the command was cancelled")
      case .timeout:
        let seconds = options.timeout ?? 0
        return failed(
          .timeout,
          "the command took longer than \(seconds.formattedSeconds) seconds",
          hint: "give it more time, or less to do"
        )
      case .callback(let message):
        return failed(.callbackError, "the output of the command was not taken: \(message)")
      case .spill(let message): return failed(.unknown, message)
      case nil:
        return .success(
          ExecutionResult(
            exitCode: exitCode,
            spillPath: spill?.path,
            spillTruncated: spill?.isTruncated ?? false
          )
        )
      }
    }

    /// Waits until there is something to do.
    func wait(_ bell: Bell) {
      var times: [Int64] = []
      if stopped == nil, let deadline { times.append(deadline) }
      if exitCode != nil {
        times.append(lastActivity + Self.grace)
        if stopped != nil { times.append(stoppedAt + Self.longestDrain) }
      }
      if let due = queue.due { times.append(due) }
      _ = Readiness.wait(
        bell.descriptor,
        mayRead ? output : nil,
        mayRead ? errors : nil,
        exitCode == nil ? process.handle : nil,
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
