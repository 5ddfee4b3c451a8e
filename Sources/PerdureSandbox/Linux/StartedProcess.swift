import CPerdureLinux
import Glibc

/// What is started: a program, what it is given, and where.
struct ProcessLaunch: Sendable {
  /// A path, or a name that is looked for in `PATH`.
  var program: String
  var arguments: [String]
  /// As `NAME=VALUE`.
  var variables: [String]
  var folder: Descriptor
  /// Where that is in the environment.
  var path: VirtualPath
}

/// A process with pipes from it, which leads a session of its own.
final class StartedProcess: StartedCommand {
  let output: Descriptor
  let errors: Descriptor
  /// Can be read once the process has ended.
  let news: Descriptor
  private let number: Int32

  /// Starts it, with nothing as its input.
  init(_ launch: ProcessLaunch) throws(SystemFailure) {
    var raw = perdure_command()
    let arguments = Self.joined(launch.arguments)
    let variables = Self.joined(launch.variables)
    let result = unsafe arguments.withUnsafeBufferPointer { arguments in
      unsafe variables.withUnsafeBufferPointer { variables in
        unsafe perdure_command_start(
          launch.program,
          arguments.baseAddress,
          Int32(clamping: launch.arguments.count),
          variables.baseAddress,
          Int32(clamping: launch.variables.count),
          launch.folder.number,
          &raw
        )
      }
    }
    guard result >= 0 else { throw SystemFailure(result) }
    output = Descriptor(raw.output)
    errors = Descriptor(raw.errors)
    news = Descriptor(raw.handle)
    number = raw.process
  }

  private static func joined(_ texts: [String]) -> [CChar] {
    var joined: [CChar] = []
    for text in texts {
      joined += text.utf8.map { CChar(bitPattern: $0) }
      joined.append(0)
    }
    return joined.isEmpty ? [0] : joined
  }

  /// Once it has ended: 128 and the signal for one that a signal ended, 255 for one whose code somebody
  /// else in this process took.
  func end() -> CommandEnd? {
    switch perdure_command_status(news.number) {
    case -2: CommandEnd(exitCode: 255)
    case let status where status < 0: nil
    case let status: CommandEnd(exitCode: status)
    }
  }

  /// Kills it and all that stayed in its group.
  func kill() { perdure_command_kill(number) }

  func destroy() { kill() }

  /// Forgets it once it has ended; its number may belong to another one then.
  func forget() { perdure_command_reap(number) }

  /// As far as it stayed in the group.
  var leavesProcesses: Bool { perdure_session_has_group(number) != 0 }
}

/// Reads what a pipe holds; `nil` if that is nothing yet, an empty array at its end.
func readPipe(_ pipe: Descriptor, into buffer: inout [UInt8]) -> ArraySlice<UInt8>? {
  let length = unsafe buffer.withUnsafeMutableBytes {
    unsafe perdure_command_read(pipe.number, $0.baseAddress, Int64($0.count))
  }
  if length == -11 { return nil }
  return length <= 0 ? [] : buffer[..<Int(length)]
}

/// The variables of this process as `NAME=VALUE`.
func ownVariables() -> [String] {
  var variables: [String] = []
  while let text = unsafe perdure_command_variable_at(Int32(variables.count)) {
    variables.append(unsafe String(cString: text))
  }
  return variables
}

/// The value of a variable of this process.
func ownVariable(_ name: String) -> String? {
  unsafe perdure_command_variable(name).map { unsafe String(cString: $0) }
}

/// Whether there is a program at a path that this process may run.
func isExecutable(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
