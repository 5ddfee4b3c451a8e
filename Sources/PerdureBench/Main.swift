import Glibc
import Perdure
import PerdureModel

/// `perdure-bench`: the workloads by which the host is compared with others.
@main
struct Main {
  static func main() async {
    HostExecutor.install()
    await program()
  }

  /// Away from the main actor, which libdispatch serves.
  @concurrent
  private static func program() async {
    let words = CommandLine.arguments.dropFirst()
    if words.contains("--help") || words.contains("-h") { return print(Arguments.usage) }
    do {
      let arguments = try Arguments(words)
      try Machine.prepare(arguments.folder)
      try await run(arguments)
    } catch {
      complain(error)
      exit((error as? PerdureError)?.code == .invalidInput ? 2 : 1)
    }
  }

  private static func run(_ arguments: Arguments) async throws {
    switch arguments.workload {
    case "w1": try await ToolLoop.run(arguments)
    case "w2": try await ManyConversations.run(arguments)
    case "w3": try await LongTranscript.run(arguments)
    case "w3open": try await LongTranscript.open(arguments)
    case "w4": try await Streaming.run(arguments)
    case "scale": try await Scale.run(arguments)
    case "append": try await DocumentAppend.run(arguments)
    case "seed": try await Seed.run(arguments)
    case "w5": try await ColdStart.run(arguments)
    case "w6": try await Border.run(arguments)
    case "upgrades": try await Upgrades.run(arguments)
    case "w7": try await Crash.run(arguments)
    case "sleepers": try await Sleepers.run(arguments)
    case "idle": try await Idle.run(arguments)
    case "floor": try Floor.run(arguments)
    default: throw Arguments.wrong("the workload '\(arguments.workload)' is unknown")
    }
  }

  private static func complain(_ error: any Error) {
    let text = (error as? PerdureError)?.description ?? "\(error)"
    var bytes = Array("perdure-bench: \(text)\n".utf8)
    unsafe _ = write(STDERR_FILENO, &bytes, bytes.count)
  }
}
