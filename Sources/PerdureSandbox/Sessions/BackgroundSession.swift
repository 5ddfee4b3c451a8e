import Glibc
import PerdureModel
import Synchronization

/// A command that runs in the background: a thread of its own reads what it puts out, feeds it, and waits
/// for its end.
final class BackgroundSession: CommandSession {
  /// What a session may use, as far as the host sees to it.
  struct Bounds: Sendable {
    var seconds: Double?
    var output: Int64?
    /// Between the request to end and the end.
    var grace: Double = 2
  }

  /// Starts the command; may block.
  typealias Start = @Sendable () throws(ExecutionError) -> SandboxedCommand

  /// Somebody who waits for output or for the end.
  private struct Waiter {
    var position: Int64?
    var deadline: Int64?
    var continuation: CheckedContinuation<Void, Never>
  }

  /// How its end was asked for.
  enum Demand: Int, Comparable {
    case none, stop, destroy

    static func < (left: Demand, right: Demand) -> Bool { left.rawValue < right.rawValue }
  }

  private struct State {
    var log: SessionLog
    var end: SessionEnd?
    var command: SandboxedCommand?
    var terminal: Descriptor?
    var waiters: [UInt64: Waiter] = [:]
    var cancelled: Set<UInt64> = []
    var nextWaiter: UInt64 = 0
    var input: [UInt8] = []
    var takesInput = true
    var isInputEnding = false
    var demand = Demand.none
  }

  let id: String
  let hasTerminal: Bool
  private let bounds: Bounds
  private let bell: Bell
  private let state: Mutex<State>

  /// How much input waits for a command that does not read it.
  private static let inputRoom = 1 << 20

  private init(_ options: SessionOptions, _ bounds: Bounds, _ bell: Bell) {
    id = "bg-\(Self.randomName)"
    hasTerminal = options.terminal != nil
    self.bounds = bounds
    self.bell = bell
    state = Mutex(State(log: SessionLog(room: options.keptBytes)))
  }

  /// Short enough for a model to repeat, and unlike that of any other host.
  private static var randomName: String {
    let letters = Array("abcdefghijkmnpqrstuvwxyz23456789")
    return String((0..<8).compactMap { _ in letters.randomElement() })
  }

  /// Starts a command and returns once it runs, or throws why it does not.
  static func starting(
    _ options: SessionOptions,
    _ bounds: Bounds,
    register: (BackgroundSession) -> Void,
    _ start: @escaping Start
  ) async throws(ExecutionError) -> BackgroundSession {
    let bell: Bell
    do {
      bell = try Bell()
    } catch {
      throw ExecutionError(.spawnError, "no command can be started: \(error.text)")
    }
    let session = BackgroundSession(options, bounds, bell)
    register(session)
    let result = await withCheckedContinuation {
      (continuation: CheckedContinuation<Result<Void, ExecutionError>, Never>) in
      let isStarted = WorkThreads.startPlain { session.run(start, continuation) }
      if !isStarted {
        let error = ExecutionError(.spawnError, "no thread could be started for the command")
        session.finish(SessionEnd(exitCode: 255, failure: error))
        continuation.resume(returning: .failure(error))
      }
    }
    try result.get()
    return session
  }

  // MARK: For those who use it

  var end: SessionEnd? { state.withLock { $0.end } }

  /// Whether it is past its start.
  var hasBegun: Bool { state.withLock { $0.command != nil || $0.end != nil } }

  func output(after position: SessionPosition) -> SessionOutput {
    state.withLock { state in
      SessionOutput(
        chunks: state.log.chunks(after: position),
        position: state.log.position,
        end: state.end
      )
    }
  }

  func output(after position: SessionPosition, within seconds: Double) async -> SessionOutput {
    await wait(behind: position.bytes, seconds)
    return output(after: position)
  }

  func wait() async -> SessionEnd {
    while true {
      if let end { return end }
      await wait(behind: nil, nil)
      if let end { return end }
      // Whoever is cancelled waits all the same, for an end that others bring about.
      if Task.isCancelled { await Task { await self.wait(behind: nil, nil) }.value }
    }
  }

  func stop() async -> SessionEnd {
    demand(.stop)
    return await wait()
  }

  /// Ends it at once, whatever it does; its end comes later.
  func destroy() { demand(.destroy) }

  private func demand(_ demand: Demand) {
    state.withLock { $0.demand = max($0.demand, demand) }
    bell.ring()
  }

  func write(_ bytes: [UInt8]) throws(ExecutionError) {
    let problem = state.withLock { state -> ExecutionError? in
      guard state.end == nil, state.takesInput, !state.isInputEnding else { return ended }
      guard state.input.count + bytes.count <= Self.inputRoom else {
        return ExecutionError(
          .unknown,
          "more than \(Self.inputRoom) bytes wait for the session \(id) to read them",
          hint: "write less at once, or stop it if it does not read"
        )
      }
      state.input += bytes
      return nil
    }
    if let problem { throw problem }
    bell.ring()
  }

  func endInput() throws(ExecutionError) {
    // The character by which a terminal is told.
    if hasTerminal { return try write([0x04]) }
    let isEnded = state.withLock { state in
      if state.end == nil { state.isInputEnding = true }
      return state.end != nil
    }
    if isEnded { throw ended }
    bell.ring()
  }

  func resize(_ size: TerminalSize) throws(ExecutionError) {
    let (isEnded, terminal) = state.withLock { ($0.end != nil, $0.terminal) }
    if isEnded { throw ended }
    guard let terminal else {
      throw ExecutionError(
        .notSupported,
        "the session \(id) has no terminal",
        hint: "start it with one"
      )
    }
    do {
      try terminal.resize(size)
    } catch {
      throw ExecutionError(.unknown, "the terminal cannot have this size: \(error.text)")
    }
  }

  func signal(_ number: UInt8) throws(ExecutionError) {
    guard (1...64).contains(number) else {
      throw ExecutionError(
        .unknown,
        "\(number) is the number of no signal",
        hint: "give 1 to 64"
      )
    }
    let (isEnded, command) = state.withLock { ($0.end != nil, $0.command) }
    guard !isEnded, let command else { throw ended }
    // The launcher's own end of all is sure to reach all.
    if Int32(number) == SIGKILL { return demand(.destroy) }
    command.signal(number)
  }

  private var ended: ExecutionError {
    ExecutionError(
      .sessionEnded,
      "the session \(id) reads no more input, or has ended",
      hint: "start the command again if it is still needed"
    )
  }

  // MARK: Waiting

  /// Returns when there is output behind a place, at the end, after some seconds, or when cancelled.
  private func wait(behind position: Int64?, _ seconds: Double?) async {
    let deadline = seconds.map { seconds in
      monotonicNanoseconds() + Int64(min(max(seconds, 0), 1e6) * 1_000_000_000)
    }
    let number = state.withLock { state in
      state.nextWaiter += 1
      return state.nextWaiter
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let waiter = Waiter(position: position, deadline: deadline, continuation: continuation)
        let waits = state.withLock { state in
          let isCancelled = state.cancelled.remove(number) != nil
          let isMet = position.map { state.log.position.bytes > $0 } ?? false
          guard state.end == nil, !isMet, !isCancelled else { return false }
          state.waiters[number] = waiter
          return true
        }
        if waits { bell.ring() } else { continuation.resume() }
      }
    } onCancel: {
      let waiter = state.withLock { state in
        let waiter = state.waiters.removeValue(forKey: number)
        if waiter == nil { state.cancelled.insert(number) }
        return waiter
      }
      waiter?.continuation.resume()
    }
    _ = state.withLock { $0.cancelled.remove(number) }
  }

  /// Wakes those for whom there is something; when the next one's time is over.
  private func wake() -> Int64? {
    let now = monotonicNanoseconds()
    let (due, next) = state.withLock { state -> ([Waiter], Int64?) in
      let isEnded = state.end != nil
      let written = state.log.position.bytes
      let due = state.waiters.filter { _, waiter in
        isEnded || waiter.position.map { written > $0 } ?? false
          || waiter.deadline.map { now >= $0 } ?? false
      }
      for number in due.keys { state.waiters[number] = nil }
      return (Array(due.values), state.waiters.values.compactMap { $0.deadline }.min())
    }
    for waiter in due { waiter.continuation.resume() }
    return next
  }

  private func finish(_ end: SessionEnd) {
    state.withLock { state in
      state.log.end()
      state.end = end
      state.command = nil
      state.terminal = nil
      state.input = []
    }
    _ = wake()
  }

  // MARK: The thread

  private func run(
    _ start: Start,
    _ begun: CheckedContinuation<Result<Void, ExecutionError>, Never>
  ) {
    do throws(ExecutionError) {
      let command = try start()
      defer { command.forget() }
      let ending = try awaitBegin(command)
      let terminal = try terminal(of: command)
      state.withLock { state in
        state.command = command
        state.terminal = terminal
      }
      begun.resume(returning: .success(()))
      finish(follow(command, terminal, ending))
    } catch {
      finish(SessionEnd(exitCode: 255, failure: error))
      begun.resume(returning: .failure(error))
    }
  }

  /// Returns once the command runs; with its end if that has come already.
  private func awaitBegin(_ command: SandboxedCommand) throws(ExecutionError) -> CommandEnd? {
    var isEnding = false
    while true {
      let end = command.end()
      if command.hasBegun { return end }
      if let end {
        throw end.failure
          ?? ExecutionError(.spawnError, "the command ended before it began")
      }
      bell.silence()
      if !isEnding, state.withLock({ $0.demand != .none }) {
        isEnding = true
        command.destroy()
      }
      SessionWaiting(bell: bell, news: command.news).wait(until: nil)
    }
  }

  private func terminal(of command: SandboxedCommand) throws(ExecutionError) -> Descriptor? {
    guard hasTerminal else { return nil }
    do throws(SystemFailure) {
      guard let terminal = command.takeTerminal() else { throw SystemFailure(ENOTTY) }
      try terminal.withoutWait()
      return terminal
    } catch {
      command.destroy()
      throw ExecutionError(.spawnError, "the command got no terminal: \(error.text)")
    }
  }

  private func follow(
    _ command: SandboxedCommand,
    _ terminal: Descriptor?,
    _ ending: CommandEnd?
  ) -> SessionEnd {
    var progress = SessionProgress(command, terminal, bounds, ending)
    while true {
      bell.silence()
      progress.obey(state.withLock { $0.demand })
      progress.read { bytes, stream in state.withLock { $0.log.add(bytes, stream) } }
      feed(&progress)
      if let end = progress.look() { return end }
      let next = wake()
      let hasInput = state.withLock { !$0.input.isEmpty }
      progress.wait(bell, hasInput: hasInput, until: next)
    }
  }

  private func feed(_ progress: inout SessionProgress) {
    let (input, isEnding) = state.withLock { ($0.input, $0.isInputEnding) }
    if !input.isEmpty {
      let written = progress.write(input)
      state.withLock { state in
        if let written {
          state.input.removeFirst(written)
        } else {
          state.input = []
          state.takesInput = false
        }
      }
    }
    if isEnding, state.withLock({ $0.input.isEmpty }) { progress.endInput() }
  }
}
