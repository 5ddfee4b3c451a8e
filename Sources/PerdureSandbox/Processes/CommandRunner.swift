import Glibc
import PerdureModel
import PerdureValue
import Synchronization

/// Runs commands as processes of this machine.
final class CommandRunner: Sendable {
  /// What commands are given.
  struct Configuration: Sendable {
    /// The shell; absent: the best of those that there are.
    var shell: String?
    /// What commands have that inherit variables.
    var variables: [String: String]
    /// Creates a file for the output of a command.
    var createSpill: OutputSpill.Create
    /// Starts a command; may block.
    var start:
      @Sendable (ProcessLaunch, _ seconds: Double?) throws(ExecutionError) -> any StartedCommand =
        { (launch, _) throws(ExecutionError) in try StartedProcess.starting(launch) }
    /// Seconds of a command that names no timeout; absent: any number.
    var standardSeconds: Double?
    /// The most seconds that one can have.
    var mostSeconds: Double?
    /// Seconds that a command may take to end that was asked to.
    var patience = 5.0
    /// Bytes that one may put out before it is ended.
    var mostOutput: Int64?
    /// What is said of a command that leaves processes running.
    var confinement: Confinement?
    /// How commands are run in the background; absent: none are.
    var sessions: SessionRegistry.Configuration?
  }

  private struct State {
    var runs: [ObjectIdentifier: CommandRun] = [:]
    var isClosed = false
    /// Those who wait until nothing runs any more.
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let configuration: Configuration
  private let state = Mutex(State())
  /// Absent where nothing runs in the background.
  let sessions: SessionRegistry?

  init(_ configuration: Configuration) {
    self.configuration = configuration
    sessions = configuration.sessions.map { SessionRegistry($0) }
  }

  /// Kills all commands that run or are being started, and returns once those in the background are
  /// gone.
  func cleanup() async {
    for run in state.withLock({ Array($0.runs.values) }) { run.abort() }
    await sessions?.end()
  }

  /// Starts a command in the background, in an open folder.
  func startSession(
    _ command: EnvironmentCommand,
    _ options: SessionOptions,
    in folder: Descriptor,
    _ path: VirtualPath
  ) async throws(ExecutionError) -> (any CommandSession)? {
    guard let sessions else { return nil }
    let execution = ExecutionOptions(
      variables: options.variables,
      inheritsVariables: options.inheritsVariables,
      timeout: options.timeout
    )
    return try await sessions.start(launch(command, execution, in: folder, path), options)
  }

  /// Starts nothing from now on.
  func close() {
    state.withLock { $0.isClosed = true }
    sessions?.close()
  }

  /// Waits until nothing runs any more.
  func untilIdle() async {
    await withCheckedContinuation { continuation in
      let isIdle = state.withLock { state in
        if !state.runs.isEmpty { state.waiters.append(continuation) }
        return state.runs.isEmpty
      }
      if isIdle { continuation.resume() }
    }
  }

  private func begin(_ run: CommandRun) -> Bool {
    state.withLock { state in
      if !state.isClosed { state.runs[ObjectIdentifier(run)] = run }
      return !state.isClosed
    }
  }

  private func forget(_ run: CommandRun) {
    let waiters = state.withLock { state in
      state.runs[ObjectIdentifier(run)] = nil
      guard state.runs.isEmpty else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Runs a command in an open folder.
  func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    in folder: Descriptor,
    _ path: VirtualPath,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async throws(ExecutionError) -> ExecutionResult {
    let launch = try launch(command, options, in: folder, path)
    var bounds = CommandRun.Bounds()
    bounds.seconds = options.timeout ?? configuration.standardSeconds
    if let most = configuration.mostSeconds { bounds.seconds = min(bounds.seconds ?? most, most) }
    bounds.output = configuration.mostOutput
    bounds.patience = configuration.patience
    let bell: Bell
    do {
      bell = try Bell()
    } catch {
      throw ExecutionError(.spawnError, "no command can be started: \(error.text)")
    }
    let run = CommandRun(bell: bell)
    guard begin(run) else {
      throw ExecutionError(.spawnError, "the environment of the command is closed")
    }
    let spill = options.spill.map { OutputSpill($0, configuration.createSpill) }
    let isStarted = WorkThreads.startPlain { [self, bounds] in
      let result = self.run(launch, run, options, bounds, spill)
      forget(run)
      run.end(result)
    }
    guard isStarted else {
      forget(run)
      throw ExecutionError(.spawnError, "no thread could be started for the command")
    }
    let result = await withTaskCancellationHandler {
      await Self.take(run, onOutput)
    } onCancel: {
      run.abort()
    }
    return try result.get()
  }

  /// Hands the output on until the command is over.
  private static func take(
    _ run: CommandRun,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async -> Result<ExecutionResult, ExecutionError> {
    var hasFailed = false
    while true {
      switch await run.next() {
      case .ended(let result): return result
      case .chunk(let chunk):
        guard let onOutput, !hasFailed else { continue }
        do {
          try await onOutput(chunk)
        } catch {
          hasFailed = true
          run.fail("\(error)")
        }
      }
    }
  }

  /// Starts a process and follows it to its end; blocks.
  private func run(
    _ launch: ProcessLaunch,
    _ run: CommandRun,
    _ options: ExecutionOptions,
    _ bounds: CommandRun.Bounds,
    _ spill: OutputSpill?
  ) -> Result<ExecutionResult, ExecutionError> {
    do throws(ExecutionError) {
      let process = try configuration.start(launch, bounds.seconds)
      let result = run.follow(process, options, bounds, spill)
      process.forget()
      guard process.leavesProcesses else { return result }
      return result.map { result in
        var noted = result
        noted.confinement = result.confinement ?? configuration.confinement
        noted.confinement?.facts["leftRunning"] = true
        return noted
      }
    } catch {
      return .failure(error)
    }
  }

  // MARK: What is started

  private func launch(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    in folder: Descriptor,
    _ path: VirtualPath
  ) throws(ExecutionError) -> ProcessLaunch {
    if let timeout = options.timeout {
      guard timeout.isFinite, timeout > 0, timeout <= ExecutionOptions.maxTimeout else {
        throw ExecutionError(
          .timeout,
          "\(timeout) is no time that a command can have",
          hint: "give seconds above 0 and up to \(ExecutionOptions.maxTimeout)"
        )
      }
    }
    var values = options.inheritsVariables ? configuration.variables : [:]
    for (name, value) in options.variables { values[name] = value }
    let variables = values.map { "\($0.key)=\($0.value)" }.sorted()
    let arguments: [String]
    switch command {
    case .shell(let line): arguments = [try shell(), "-c", line]
    case .arguments(let given): arguments = given
    }
    guard let program = arguments.first, !program.isEmpty else {
      throw ExecutionError(.spawnError, "the command names no program")
    }
    guard !(arguments + variables).contains(where: { $0.utf8.contains(0) }) else {
      throw ExecutionError(.spawnError, "the command holds a zero byte")
    }
    return ProcessLaunch(
      program: program,
      arguments: arguments,
      variables: variables,
      folder: folder,
      path: path
    )
  }

  private func shell() throws(ExecutionError) -> String {
    if let shell = configuration.shell {
      guard isExecutable(shell) else {
        throw ExecutionError(
          .shellUnavailable,
          "the shell \(shell.quotedForMessage) cannot be run",
          hint: "configure one that exists"
        )
      }
      return shell
    }
    if isExecutable("/bin/bash") { return "/bin/bash" }
    let folders = (configuration.variables["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
    for folder in folders where folder.hasPrefix("/") {
      let path = "\(folder)/bash"
      if isExecutable(path) { return path }
    }
    return "sh"
  }
}
