import Glibc
import PerdureModel

/// How far the command of a session has come, as its thread sees it.
struct SessionProgress {
  /// Why it was ended.
  private enum Stop {
    case asked, timeout, output
  }

  /// What still holds the pipes of a command that ended is not waited for longer.
  private static let longestDrain: Int64 = 1_000_000_000
  /// How long a command may take beyond its grace.
  private static let patience: Int64 = 5_000_000_000
  /// Readings of one stream before something else has its turn.
  private static let readings = 16

  private let command: SandboxedCommand
  private let bounds: BackgroundSession.Bounds
  private let deadline: Int64?
  private var output: Descriptor?
  private var errors: Descriptor?
  private var input: Descriptor?
  private var received: Int64 = 0
  private var ending: CommandEnd?
  private var endedAt: Int64 = 0
  private var stopped: Stop?
  private var stoppedAt: Int64 = 0
  private var isDestroyed = false
  private var mayHaveMore = false
  private var buffer = [UInt8](repeating: 0, count: 1 << 16)

  init(
    _ command: SandboxedCommand,
    _ terminal: Descriptor?,
    _ bounds: BackgroundSession.Bounds,
    _ ending: CommandEnd?
  ) {
    self.command = command
    self.bounds = bounds
    self.ending = ending
    output = terminal ?? command.output
    errors = terminal == nil ? command.errors : nil
    input = terminal ?? command.input
    let now = monotonicNanoseconds()
    endedAt = now
    deadline = bounds.seconds.map { now + Int64(min($0, 1e9) * 1_000_000_000) }
  }

  // MARK: Ending

  mutating func obey(_ demand: BackgroundSession.Demand) {
    if demand != .none { stop(.asked) }
    if demand == .destroy { destroy() }
  }

  private mutating func stop(_ reason: Stop) {
    guard stopped == nil, ending == nil else { return }
    stopped = reason
    stoppedAt = monotonicNanoseconds()
    if reason == .output { destroy() } else { command.kill() }
  }

  private mutating func destroy() {
    guard !isDestroyed, ending == nil else { return }
    isDestroyed = true
    command.destroy()
  }

  private var patienceEnd: Int64 {
    stoppedAt + Int64(bounds.grace * 1_000_000_000) + Self.patience
  }

  /// Looks what has happened, without waiting; how it ended, once all of its output was read.
  mutating func look() -> SessionEnd? {
    let now = monotonicNanoseconds()
    if ending == nil, let end = command.end() {
      ending = end
      endedAt = now
      // What it put out last may not have been read yet.
      return nil
    }
    if let deadline, now >= deadline { stop(.timeout) }
    if stopped != nil, now >= patienceEnd { destroy() }
    guard let ending, !mayHaveMore else { return nil }
    guard (output == nil && errors == nil) || now - endedAt >= Self.longestDrain else { return nil }
    return SessionEnd(
      exitCode: ending.exitCode,
      failure: failure ?? ending.failure,
      confinement: ending.confinement
    )
  }

  private var failure: ExecutionError? {
    switch stopped {
    case nil: nil
    case .asked: ExecutionError(.aborted, "the session was stopped")
    case .timeout:
      ExecutionError(
        .timeout,
        "the session was ended after \((bounds.seconds ?? 0).formattedSeconds) seconds",
        hint: "start it again if it is still needed",
        limit: "time"
      )
    case .output:
      ExecutionError(
        .unknown,
        "the session was ended because it put out more than \(bounds.output ?? 0) bytes",
        hint: "let it write into a file, or put out less",
        limit: "output"
      )
    }
  }

  // MARK: Streams

  mutating func read(_ take: (ArraySlice<UInt8>, OutputChunk.Stream) -> Void) {
    mayHaveMore = false
    if let pipe = output, drain(pipe, .stdout, take) { output = nil }
    if let pipe = errors, drain(pipe, .stderr, take) { errors = nil }
  }

  /// Reads what there is, within bounds; whether that was all there will be.
  private mutating func drain(
    _ pipe: Descriptor,
    _ stream: OutputChunk.Stream,
    _ take: (ArraySlice<UInt8>, OutputChunk.Stream) -> Void
  ) -> Bool {
    for _ in 0..<Self.readings {
      guard let bytes = readPipe(pipe, into: &buffer) else { return false }
      if bytes.isEmpty { return true }
      received += Int64(bytes.count)
      take(bytes, stream)
      if let most = bounds.output, received > most { stop(.output) }
    }
    mayHaveMore = true
    return false
  }

  /// Writes what there is room for; `nil` if nobody reads any more.
  mutating func write(_ bytes: [UInt8]) -> Int? {
    guard let input else { return nil }
    do {
      return try input.writeWithoutWait(bytes)
    } catch {
      self.input = nil
      return nil
    }
  }

  mutating func endInput() {
    input = nil
    command.endInput()
  }

  /// Waits until there is something to do.
  func wait(_ bell: Bell, hasInput: Bool, until next: Int64?) {
    if mayHaveMore { return }
    var times: [Int64] = []
    if let next { times.append(next) }
    if ending != nil {
      times.append(endedAt + Self.longestDrain)
    } else if stopped == nil {
      if let deadline { times.append(deadline) }
    } else if !isDestroyed {
      times.append(patienceEnd)
    }
    SessionWaiting(
      bell: bell,
      output: output,
      errors: errors,
      news: ending == nil ? command.news : nil,
      input: hasInput ? input : nil
    )
    .wait(until: times.min())
  }
}
