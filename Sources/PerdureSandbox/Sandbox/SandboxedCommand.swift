import Glibc
import PerdureModel
import Synchronization

/// A command that the launcher started, in a sandbox or without one.
final class SandboxedCommand: StartedCommand {
  private let started: SandboxLaunch
  private let launch: ProcessLaunch
  private let launcher: String
  /// Absent for one that nothing confines.
  private let host: SandboxHost?
  private let lines = Mutex(RecordLines())
  /// What the gate had decided before it.
  private let gateMark: Int

  init(_ started: SandboxLaunch, _ launch: ProcessLaunch, _ host: SandboxHost) {
    self.started = started
    self.launch = launch
    self.host = host
    launcher = host.launcher
    gateMark = host.gate?.mark ?? 0
  }

  /// One that nothing confines, for the sake of the launcher's lifeline and its hold of all processes.
  init(_ started: SandboxLaunch, _ launch: ProcessLaunch, unconfinedBy launcher: String) {
    self.started = started
    self.launch = launch
    self.launcher = launcher
    host = nil
    gateMark = 0
  }

  var input: Descriptor? { started.input }

  var output: Descriptor { started.output }
  var errors: Descriptor { started.errors }
  var news: Descriptor { started.records }

  func kill() { started.terminate() }

  /// Also where nobody listens to orders any more.
  func destroy() {
    started.kill()
    started.end()
  }

  func forget() { started.finish() }

  func endInput() { started.endInput() }

  func signal(_ number: UInt8) { started.signal(number) }

  /// Whether it runs or has run, as far as `end` has looked.
  var hasBegun: Bool { lines.withLock { $0.records.contains(.ready) } }

  /// Has the launcher run a command that nothing confines, in the background.
  static func unconfined(
    _ launch: ProcessLaunch,
    _ options: SessionOptions,
    launcher: String
  ) throws(ExecutionError) -> SandboxedCommand {
    var fields: [SandboxField] = [
      .tier(.none), .network(.host), .folder(launch.path.text), .limit(.grace, 2_000),
    ]
    // Those of a launcher that is told nothing are for sandboxes.
    let limits: [SandboxLimit] = [
      .data, .memory, .processes, .processorSeconds, .milliseconds, .fileSize, .diskFloor,
      .descriptors,
    ]
    fields += limits.map { .limit($0, 0) } + SandboxPlan.fields(of: launch)
    if let size = options.terminal {
      fields.append(.terminal(rows: size.rows, columns: size.columns))
    }
    do {
      let started = try SandboxLaunch(
        program: launcher,
        policy: SandboxMessage(fields),
        hasInput: options.terminal == nil
      )
      return SandboxedCommand(started, launch, unconfinedBy: launcher)
    } catch {
      throw ExecutionError(.spawnError, error.message, hint: error.hint)
    }
  }

  /// Takes the host's side of the terminal, which is sent before the command begins.
  func takeTerminal() -> Descriptor? {
    while let sent = started.receive() {
      let descriptor = Descriptor(sent.descriptor)
      if sent.message.first == UInt8(ascii: "t") { return descriptor }
    }
    return nil
  }

  /// The records end when all that ran has ended.
  func end() -> CommandEnd? {
    var buffer = [UInt8](repeating: 0, count: 4_096)
    while let bytes = started.read(.records, into: &buffer) {
      if bytes.isEmpty { return end(of: lines.withLock { $0.records }) }
      lines.withLock { $0.take(bytes) }
    }
    return nil
  }

  private func end(of records: [SandboxRecord]) -> CommandEnd {
    var end = CommandEnd(exitCode: 128 + SIGKILL)
    var isKnown = false
    for record in records {
      switch record {
      case .exited(let code): (end.exitCode, isKnown) = (code, true)
      case .ended(let signal): (end.exitCode, isKnown) = (128 + signal, true)
      case .limit(let what): end.failure = failure(limit: what)
      case .failed(let stage, let code, _): end.failure = failure(stage, code, records)
      case .killed(let why) where end.failure == nil:
        end.failure = ExecutionError(
          .unknown,
          "the sandbox was ended from outside (\(why))",
          hint: "see whether the machine is short of memory"
        )
      default: break
      }
    }
    if !isKnown, end.failure == nil {
      end.failure = ExecutionError(
        .shellUnavailable,
        "the launcher of the sandbox ended without a word",
        hint: "try again; `perdure doctor sandbox` tells what the machine can give"
      )
    }
    if let host {
      end.confinement = host.confinement(report(records, host).ofCommand, since: gateMark)
    }
    return end
  }

  private func report(_ records: [SandboxRecord], _ host: SandboxHost) -> SandboxReport {
    var report = host.report.adding(SandboxReport(records))
    for path in host.plan.protected where report.unprotected[path.text] == "missing" {
      let below = path.below
      do throws(SystemFailure) {
        // A link on the way may lead elsewhere on the host.
        _ = try host.root.open(below, link: true, reach: .noLinks)
        report = report.noting(path.text, "created")
      } catch {
        if error.code != ENOENT { report = report.noting(path.text, "link") }
      }
    }
    return report
  }

  private func failure(limit: String) -> ExecutionError {
    let word = limit.split(separator: " ").first.map { String($0) } ?? limit
    let limits = host?.plan.policy.limits ?? SandboxPolicy.Limits()
    let (what, hint) =
      switch word {
      case "memory": ("took more than \(limits.memory) bytes of memory", "do less at once")
      case "cpu":
        (
          "took more than \(limits.processorSeconds) seconds of a processor",
          "do less at once"
        )
      case "file":
        ("wrote a file of more than \(limits.fileSize) bytes", "write less, or several files")
      case "disk":
        (
          "left less than \(limits.diskFloor) bytes, or too few files, free on the disk",
          "remove what is not needed"
        )
      case "time": ("took too long", "give it more time, or less to do")
      default: ("reached the limit '\(word)'", "do less at once")
      }
    return ExecutionError(
      word == "time" ? .timeout : .unknown,
      "the command was ended because it \(what)",
      hint: hint,
      limit: word
    )
  }

  private func failure(
    _ stage: String,
    _ code: Int32,
    _ records: [SandboxRecord]
  ) -> ExecutionError {
    switch stage {
    case "exec": return ExecutionError(running: launch.program, SystemFailure(code))
    case "directory":
      return ExecutionError(
        .spawnError,
        "the working folder \(launch.path.text.quotedForMessage) cannot be entered"
      )
    default:
      let failure = SandboxProgram.failure(of: SandboxOutcome(records: records), launcher)
      return ExecutionError(.shellUnavailable, failure.message, hint: failure.hint)
    }
  }
}
