package import PerdureModel

/// What `perdure-sandbox --probe` found on this machine.
package struct SandboxProbe: Sendable {
  /// One line about the kernel, as `landlock_abi` and `7`.
  package struct Fact: Sendable, Equatable {
    package var name: String
    package var value: String
  }

  /// What came of the trial of one tier.
  package struct Trial: Sendable {
    package var tier: SandboxTier
    package var isAvailable: Bool
    package var outcome: SandboxOutcome
  }

  package private(set) var facts: [Fact] = []
  package private(set) var trials: [Trial] = []

  /// Reads the program's output; lines of another release count as facts.
  package init(output: String) {
    var records: [String: [SandboxRecord]] = [:]
    var available: Set<String> = []
    for line in output.split(separator: "\n") {
      let words = line.split(separator: " ", maxSplits: 1).map { String($0) }
      guard let name = words.first, words.count == 2 else { continue }
      if Self.tier(named: name) == nil {
        facts.append(Fact(name: name, value: words[1]))
      } else if words[1] == "available" {
        available.insert(name)
      } else if words[1] != "unavailable" {
        records[name, default: []].append(SandboxRecord(line: words[1]))
      }
    }
    trials = SandboxTier.allCases.map { tier in
      Trial(
        tier: tier,
        isAvailable: available.contains("\(tier)"),
        outcome: SandboxOutcome(records: records["\(tier)"] ?? [])
      )
    }
  }

  private static func tier(named name: String) -> SandboxTier? {
    SandboxTier.allCases.first { "\($0)" == name }
  }

  /// The strongest tier that works here.
  package var strongest: SandboxTier? { trials.first { $0.isAvailable }?.tier }
}

extension SandboxProbe {
  /// Lets the launcher try all tiers, and reads what it says; blocks.
  package static func run(launcher: String) throws(PerdureError) -> SandboxProbe {
    let process: StartedProcess
    do {
      process = try StartedProcess(
        ProcessLaunch(
          program: launcher,
          arguments: [launcher, "--probe"],
          variables: [],
          folder: try Descriptor.root(at: "/"),
          path: .root
        )
      )
    } catch {
      throw PerdureError(
        .sandboxUnavailable,
        "the launcher of sandboxes at \(launcher) cannot be started: \(error.text)",
        hint: "install \(SandboxProgram.name) of this version there"
      )
    }
    defer {
      process.kill()
      process.forget()
    }
    let output = collect(process)
    guard let output, let status = process.end()?.exitCode else {
      throw PerdureError(
        .sandboxUnavailable,
        "the launcher of sandboxes at \(launcher) took too long or said too much when it was asked",
        hint: "see whether that is \(SandboxProgram.name) of this version"
      )
    }
    guard status == 0 else { throw SandboxProgram.silence(launcher, status) }
    let probe = SandboxProbe(output: String(decoding: output, as: UTF8.self))
    guard !probe.facts.isEmpty else { throw SandboxProgram.stranger(launcher) }
    return probe
  }

  /// What it prints; `nil` if that takes too long or is too much.
  private static func collect(_ process: StartedProcess) -> [UInt8]? {
    let deadline = monotonicNanoseconds() + 60_000_000_000
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var output: [UInt8] = []
    while output.count <= 1 << 20 {
      guard Readiness.has(process.output, by: deadline) else { return nil }
      guard let bytes = readPipe(process.output, into: &buffer) else { continue }
      guard bytes.isEmpty else {
        output += bytes
        continue
      }
      return Readiness.has(process.news, by: deadline) ? output : nil
    }
    return nil
  }
}
