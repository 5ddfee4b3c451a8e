import PerdureModel
import PerdureSandbox
import Testing

@Suite struct SandboxLaunchTests {
  @Test func `a command's output and end arrive`() throws {
    let outcome = try Self.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    #expect(outcome.failure == nil)
    #expect(String(decoding: outcome.output, as: UTF8.self) == "out\n")
    #expect(String(decoding: outcome.errors, as: UTF8.self) == "err\n")
    #expect(outcome.status == 3)
    #expect(outcome.records.contains(.exited(3)))
  }

  @Test func `closing the lifeline ends a command that ignores signals`() throws {
    let launch = try Self.launch(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"])
    var buffer = [UInt8](repeating: 0, count: 64)
    while launch.read(.output, into: &buffer) == nil { _ = launch.wait(for: [.output]) }
    launch.end()
    let outcome = SandboxOutcome(of: launch)
    #expect(outcome.status == 137)
    #expect(outcome.records.contains(.killed("lifeline")))
  }

  @Test func `a policy that the launcher refuses names stage, error and remedy`() throws {
    let outcome = try Self.run(["true"], more: [.folder("relative")])
    let failure = try #require(outcome.failure)
    #expect(failure.code == "sandbox_unavailable")
    #expect(failure.message.contains("'policy'"))
    #expect(failure.hint != nil)
    #expect(outcome.status == 125)
  }

  @Test func `a text with a zero is refused before anything starts`() {
    #expect(throws: PerdureError.self) { try SandboxMessage([.argument("a\0b")]) }
  }

  @Test func `a launcher that is missing is one sentence`() throws {
    let message = try SandboxMessage([.tier(.none), .argument("true")])
    #expect(throws: PerdureError.self) {
      try SandboxLaunch(program: "/no/such/launcher", policy: message)
    }
  }

  @Test(arguments: [
    ("enforced tier landlock", SandboxRecord.enforced("tier landlock")),
    ("unprotected link /workspace/a b", .unprotected(reason: "link", path: "/workspace/a b")),
    (
      "failed mount 2 /a%0Ab%25 c",
      .failed(stage: "mount", code: 2, detail: "/a\nb% c")
    ),
    ("failed mount two /a", .unknown("failed mount two /a")), ("exit status 7", .exited(7)),
    ("exit signal 9", .ended(signal: 9)),
    ("exit signal 2147483647", .unknown("exit signal 2147483647")),
    ("exit status 256", .unknown("exit status 256")), ("exit", .unknown("exit")), ("ready", .ready),
    ("", .unknown("")), ("tomorrow's word", .unknown("tomorrow's word")),
  ])
  func `a record is read`(line: String, record: SandboxRecord) {
    #expect(SandboxRecord(line: line) == record)
  }

  @Test func `a probe tells facts, what each tier gave, and why one failed`() {
    let probe = SandboxProbe(
      output: """
        kernel 6.1.0 x86_64
        landlock_abi 2
        namespaces enforced tier namespaces
        namespaces failed namespaces 1 clone
        namespaces remedy allow namespaces
        namespaces unavailable
        landlock enforced fsRead
        landlock exit status 0
        landlock available
        none available
        """
    )
    #expect(probe.facts.map(\.name) == ["kernel", "landlock_abi"])
    #expect(probe.strongest == .landlock)
    #expect(probe.trials.map(\.isAvailable) == [false, true, true])
    #expect(probe.trials.first?.outcome.failure?.hint == "allow namespaces")
    #expect(probe.trials.dropFirst().first?.outcome.enforced == ["fsRead"])
  }

  /// The tier that every machine has: what is told of here is the way to the launcher, not what confines.
  private static func launch(
    _ arguments: [String],
    more: [SandboxField] = []
  ) throws -> SandboxLaunch {
    let fields: [SandboxField] =
      [.tier(.none), .variable(name: "PATH", value: "/usr/bin:/bin")]
      + arguments.map { .argument($0) } + more
    return try SandboxLaunch(program: Launcher.path.get(), policy: SandboxMessage(fields))
  }

  private static func run(
    _ arguments: [String],
    more: [SandboxField] = []
  ) throws -> SandboxOutcome {
    SandboxOutcome(of: try launch(arguments, more: more))
  }
}
