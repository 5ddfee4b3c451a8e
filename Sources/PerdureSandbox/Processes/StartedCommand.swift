import Glibc
import PerdureModel

/// A command that was started, however it is confined.
protocol StartedCommand: Sendable {
  var output: Descriptor { get }
  var errors: Descriptor { get }
  /// Can be read when `end` has something to look at.
  var news: Descriptor { get }
  /// Looks whether it has ended, without waiting.
  func end() -> CommandEnd?
  /// Ends it with what it started, which may be given a moment for it.
  func kill()
  /// Ends it with what it started, at once.
  func destroy()
  /// Lets go of it once it has ended.
  func forget()
  /// Whether what it started goes on, once it was forgotten.
  var leavesProcesses: Bool { get }
}

extension StartedCommand {
  var leavesProcesses: Bool { false }
}

/// How a command ended.
struct CommandEnd: Sendable {
  var exitCode: Int32
  /// Why it did not run to its end by itself; absent: it did.
  var failure: ExecutionError?
  /// What held it back; absent: what the environment says of itself.
  var confinement: Confinement?
}

extension ExecutionError {
  /// Says why a program could not be run.
  init(running program: String, _ failure: SystemFailure) {
    let name = program.quotedForMessage
    self =
      switch failure.code {
      case ENOENT, ENOTDIR: ExecutionError(.spawnError, "there is no program \(name)")
      case EACCES: ExecutionError(.spawnError, "the program \(name) may not be run")
      case E2BIG:
        ExecutionError(
          .spawnError,
          "the command is too long",
          hint: "write it to a file and run that"
        )
      default: ExecutionError(.spawnError, "the program \(name) cannot be run: \(failure.text)")
      }
  }
}

extension StartedProcess {
  static func starting(_ launch: ProcessLaunch) throws(ExecutionError) -> StartedProcess {
    do {
      return try StartedProcess(launch)
    } catch {
      throw ExecutionError(running: launch.program, error)
    }
  }
}
