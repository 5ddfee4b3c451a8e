import Glibc
import Perdure
import PerdureModel
import PerdureSandbox
import PerdureTestKit
import PerdureValue
import Synchronization

/// What is done with a sandbox in a process of its own, as the user that the process has.
///
///     SandboxProcess conformance TIER LAUNCHER FOLDER
///     SandboxProcess command TIER LAUNCHER FOLDER NETWORK LINE
///     SandboxProcess latency TIER LAUNCHER FOLDER RUNS
///     SandboxProcess flood TIER LAUNCHER FOLDER BYTES LIMIT
enum SandboxVerbs {
  static let names = ["conformance", "command", "latency", "flood"]

  static func run(_ words: [String]) async throws -> Int32 {
    guard words.count >= 4, let tier = SandboxPolicy.Tier(rawValue: words[1]) else {
      print("usage: SandboxProcess \(names.joined(separator: "|")) TIER LAUNCHER FOLDER …")
      return 2
    }
    var policy = SandboxPolicy(workspace: words[3], tier: tier)
    policy.launcher = words[2]
    switch (words[0], words.count) {
    case ("conformance", 4): return try await conformance(policy)
    case ("command", 6): return try await command(policy, words[4], words[5])
    case ("latency", 5): return try await latency(policy, Int(words[4]) ?? 100)
    case ("flood", 6): return try await flood(policy, words[4], Int64(words[5]) ?? 0)
    default: return 2
    }
  }

  /// Runs all cases, each in a folder of its own.
  private static func conformance(_ wanted: SandboxPolicy) async throws -> Int32 {
    var policy = wanted
    policy.preset = .full
    var failures = 0
    for (number, test) in EnvironmentConformance.cases.enumerated() {
      policy.workspace = "\(wanted.workspace)/case-\(number)"
      guard unsafe mkdir(policy.workspace, 0o755) == 0 else { throw SystemError(code: errno) }
      if let owner = owner(of: wanted.workspace) {
        guard unsafe chown(policy.workspace, owner.0, owner.1) == 0 else {
          throw SystemError(code: errno)
        }
      }
      let env = try TreeEnvironment.sandbox(policy)
      let workspace = policy.workspace
      let harness = EnvironmentHarness(env) { path, target in
        let place =
          wanted.tier == .namespaces ? workspace + path.dropFirst("/workspace".count) : path
        guard unsafe symlink(target, place) == 0 else { throw SystemError(code: errno) }
      }
      do {
        try await test.run(harness)
      } catch {
        failures += 1
        print("\(test): \(error)")
      }
      await env.close()
    }
    print("\(EnvironmentConformance.cases.count) cases, \(failures) failed")
    if failures == 0 { print("all cases passed") }
    return failures == 0 ? 0 : 1
  }

  private struct SystemError: Error {
    var code: Int32
  }

  private static func owner(of path: String) -> (uid_t, gid_t)? {
    var status = stat()
    guard unsafe stat(path, &status) == 0, geteuid() == 0 else { return nil }
    return (status.st_uid, status.st_gid)
  }

  private static func command(
    _ wanted: SandboxPolicy,
    _ network: String,
    _ line: String
  ) async throws -> Int32 {
    var policy = wanted
    switch network {
    case "loopback": policy.network = .loopback
    case "host": policy.network = .host
    case _ where network.hasPrefix("allow="):
      policy.network = .allow(network.dropFirst(6).split(separator: ",").map { String($0) })
    default: policy.network = .off
    }
    policy.limits.seconds = 300
    let env = try TreeEnvironment.sandbox(policy)
    let result = try await env.execute(.shell(line), ExecutionOptions()) { chunk in
      print(chunk.text, terminator: "")
    }
    await env.close()
    return result.exitCode
  }

  /// The time of `bash -c true` through the environment, in microseconds: least and median.
  private static func latency(_ policy: SandboxPolicy, _ runs: Int) async throws -> Int32 {
    let env = try TreeEnvironment.sandbox(policy)
    let clock = ContinuousClock()
    var times: [Duration] = []
    for _ in 0..<max(runs, 1) {
      times.append(
        try await clock.measure {
          _ = try await env.execute(.shell("true"), ExecutionOptions(), nil)
        }
      )
    }
    times.sort()
    func text(_ time: Duration?) -> String { "\((time ?? .zero) / .microseconds(1))" }
    print("\(times.count) runs: least \(text(times.first)), median \(text(times[times.count / 2]))")
    await env.close()
    return 0
  }

  /// Takes a large output through a window, counts it, and tells how much memory that took.
  private static func flood(
    _ wanted: SandboxPolicy,
    _ bytes: String,
    _ limit: Int64
  ) async throws -> Int32 {
    var policy = wanted
    if limit > 0 { policy.limits.output = limit }
    policy.limits.seconds = 3_000
    let env = try TreeEnvironment.sandbox(policy)
    var options = ExecutionOptions()
    options.window = OutputWindowHint(
      maxBytes: 51_200,
      maxLines: 2_000,
      minIntervalMs: 100,
      bytesPerSecond: 1 << 20
    )
    options.spill = ExecutionOptions.Spill(afterBytes: 51_200, afterLines: 2_000)
    let counts = Mutex((bytes: 0, newlines: 0))
    do {
      _ = try await env.execute(.shell("yes | head -c \(bytes)"), options) { chunk in
        counts.withLock { counts in
          counts.bytes += chunk.text.utf8.count + (chunk.skipped?.bytes ?? 0)
          counts.newlines += chunk.text.utf8.count { $0 == 10 } + (chunk.skipped?.newlines ?? 0)
        }
      }
    } catch {
      print("limit \(error.limit ?? "-"): \(error.message)")
    }
    let total = counts.withLock { $0 }
    print("bytes \(total.bytes) newlines \(total.newlines) peak \(Memory.peak()) KiB")
    await env.close()
    return 0
  }
}
