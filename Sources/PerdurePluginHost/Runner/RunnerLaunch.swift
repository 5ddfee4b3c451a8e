internal import PerdureModel
import PerdureValue

/// How the process of a plugin is started.
struct RunnerLaunch: Sendable {
  /// The program, `perdure-runner`.
  var program: String
  /// The private copy of the plugin.
  var path: String
  /// SHA-256 of the plugin.
  var digest: String
  var manifest: [UInt8]
  var limits: RunnerLimits

  /// Private memory beside the stacks, unless the manifest asks for less or more.
  static let defaultMiB: UInt64 = 1_024
  static let defaultFiles: UInt64 = 256
  /// What the runner itself has open.
  private static let ownFiles: UInt64 = 16
  private static let stackMiB: UInt64 = 8
  private static let ownThreads: UInt64 = 16

  /// Starts the process; the calling thread must live as long.
  func start() throws(SystemFailure) -> RunnerProcess {
    try RunnerProcess([program, path], variables: Self.variables, limits: limits)
  }

  /// What a plugin gets to see of the host's environment: nothing that may be a secret.
  private static let variableNames = [
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS",
  ]

  private static var variables: [String] {
    variableNames.compactMap { name in RunnerEnd.variable(name).map { "\(name)=\($0)" } }
      + ["SWIFT_BACKTRACE=enable=no"]
  }

  /// A sanitizer maps more memory than any limit allows.
  private static var isSanitized: Bool {
    ["ASAN_OPTIONS", "TSAN_OPTIONS"].contains { RunnerEnd.variable($0) != nil }
  }

  /// The limits that the manifest's `execution` leads to.
  static func limits(_ execution: Manifest.Execution) -> RunnerLimits {
    func number(_ name: JSONString, _ range: ClosedRange<UInt64>, _ fallback: UInt64) -> UInt64 {
      guard let value = execution.limits?[name]?.int, value > 0 else { return fallback }
      return min(max(UInt64(value), range.lowerBound), range.upperBound)
    }
    let memory = number("memoryMiB", 16...1 << 20, defaultMiB)
    // Every thread has a stack, which counts as memory whether it is used or not.
    let stacks = stackMiB * (UInt64(execution.maxConcurrency) + 8 + ownThreads)
    let data = memory + stacks
    return RunnerLimits(
      dataBytes: isSanitized ? 0 : data << 20,
      files: number("files", 16...1 << 20, defaultFiles) + ownFiles,
      processes: number("processes", 1...1 << 20, 0)
    )
  }

  /// Finds the program: the one that is given, else the one beside this program.
  static func program(_ given: String?, _ path: String) throws(PerdureError) -> String {
    if let given = given ?? RunnerEnd.variable("PERDURE_RUNNER") {
      guard given.hasPrefix("/"), RunnerEnd.isProgram(given) else {
        throw PluginFiles.refused(
          path,
          "cannot run in a process of its own, because \(given) is no program",
          "set PERDURE_RUNNER to the absolute path of \(RunnerProtocol.program)"
        )
      }
      return given
    }
    let folder = RunnerEnd.program?.split(separator: "/").dropLast().joined(separator: "/")
    let beside = "/\(folder ?? "")/\(RunnerProtocol.program)"
    guard RunnerEnd.isProgram(beside) else {
      throw PluginFiles.refused(
        path,
        "cannot run in a process of its own, because there is no \(beside)",
        "install \(RunnerProtocol.program) beside this program, or use the isolation 'in-process'"
      )
    }
    return beside
  }
}
