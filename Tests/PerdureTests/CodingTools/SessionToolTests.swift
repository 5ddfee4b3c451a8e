import Foundation
import Perdure
import Testing

/// `bash` with `background`, and `bash_session` (CT-9).
@Suite(.timeLimit(.minutes(5))) struct SessionToolTests {
  private static func bench(
    _ change: (inout SandboxPolicy) -> Void = { _ in }
  ) throws -> ToolBench {
    let folder = try SandboxChoiceTests.folder()
    var policy = try SandboxChoiceTests.policy(folder)
    change(&policy)
    return ToolBench(try Environments.sandbox(policy), folder: folder)
  }

  private static func id(_ answer: ToolBench.Answer) -> String {
    answer.result.structuredOutput?["session"]?.text ?? ""
  }

  private static func output(_ answer: ToolBench.Answer) -> String? {
    answer.result.structuredOutput?["output"]?.text
  }

  /// Starts a line in the background.
  private static func start(
    _ bench: ToolBench,
    _ line: String,
    pty: Bool = false
  ) async throws -> ToolBench.Answer {
    try await bench.call(
      "bash",
      ["command": .string(line), "background": true, "pty": .bool(pty)]
    )
  }

  @Test func `a session is started, told of, written, read and stopped`() async throws {
    let bench = try Self.bench()
    defer { bench.remove() }
    let started = try await Self.start(
      bench,
      "echo begun; while read line; do echo \"got $line\"; done"
    )
    let id = Self.id(started)
    #expect(started.result.structuredOutput?["running"] == true)
    #expect(Self.output(started) == "begun\n")
    #expect(started.remarks == ["The session \(id) runs"])
    let wrote = try await bench.call(
      "bash_session",
      ["session": .string(id), "input": "a\nb\n", "wait": 60]
    )
    #expect(Self.output(wrote) == "got a\ngot b\n")
    let nothing = try await bench.call("bash_session", ["session": .string(id), "wait": 0])
    #expect(Self.output(nothing) == "")
    let stopped = try await bench.call("bash_session", ["session": .string(id), "stop": true])
    #expect(stopped.remarks == ["The session \(id) was stopped"])
    #expect(!stopped.result.isError)
    let again = try await bench.call("bash_session", ["session": .string(id)])
    #expect(again.result.structuredOutput?["running"] == false)
  }

  @Test func `a terminal is asked for by pty alone`() async throws {
    let bench = try Self.bench()
    defer { bench.remove() }
    let started = try await bench.call("bash", ["command": "test -t 0 && echo yes", "pty": true])
    let rest = try await bench.call(
      "bash_session",
      ["session": .string(Self.id(started)), "wait": 60]
    )
    #expect((Self.output(started) ?? "") + (Self.output(rest) ?? "") == "yes\r\n")
  }

  @Test func `a command that fails in the background is an error once it is told of`() async throws
  {
    let bench = try Self.bench()
    defer { bench.remove() }
    let started = try await Self.start(bench, "read line; exit 3")
    #expect(!started.result.isError)
    let ended = try await bench.call(
      "bash_session",
      ["session": .string(Self.id(started)), "input": "\n", "wait": 60]
    )
    #expect(ended.result.isError)
    #expect(ended.codes == ["exit_code"])
    #expect(ended.result.structuredOutput?["exitCode"] == 3)
  }

  @Test func `a session of another host is told to be gone, in one sentence`() async throws {
    let bench = try Self.bench()
    defer { bench.remove() }
    #expect(
      await bench.failure("bash_session", ["session": "bg-k3f9a2mn"])
        == "there is no session 'bg-k3f9a2mn', or it is gone: sessions end with the host that runs "
        + "them; start the command again if it is still needed"
    )
  }

  @Test func `nothing in a call weakens the sandbox of a session`() async throws {
    let bench = try Self.bench()
    defer { bench.remove() }
    let started = try await Self.start(
      bench,
      "cat /etc/shadow; touch /etc/evil; echo x > .git/hooks/a; echo done"
    )
    _ = try await bench.call("bash_session", ["session": .string(Self.id(started)), "wait": 60])
    #expect(Self.output(started)?.contains("root:") == false)
    #expect(!FileManager.default.fileExists(atPath: "/etc/evil"))
  }

  @Test func `there is no tool for sessions without them`() {
    let tools = Extension.codingTools(shell: true).tools
    #expect(!tools.contains { $0.name == "bash_session" })
    let bash = tools.first { $0.name == "bash" }
    #expect(bash?.parameters["properties"]?["background"] == nil)
    let both = Extension.codingTools(shell: true, sessions: true).tools.map { $0.name }
    #expect(both.contains("bash") && both.contains("bash_session"))
    let files = Extension.codingTools(shell: false, sessions: true).tools.map { $0.name }
    #expect(!files.contains { $0.hasPrefix("bash") })
  }
}
