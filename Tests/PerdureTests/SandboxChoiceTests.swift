import Foundation
import Perdure
import PerdureTestKit
import Testing

/// What a harness does with a sandbox (SX-1, SX-2, SX-10).
@Suite(.timeLimit(.minutes(5))) struct SandboxChoiceTests {
  /// The launcher, which is no product of the package.
  static let launcher: String = {
    let root = URL(filePath: #filePath)
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let program = root.appending(path: ".build/sandbox/perdure-sandbox").path
    let process = Process()
    process.executableURL = root.appending(path: "Sources/PerdureSandboxLauncher/build")
    process.arguments = [program]
    try? process.run()
    process.waitUntilExit()
    return program
  }()

  static func folder() throws -> String {
    let url = FileManager.default.temporaryDirectory.appending(path: "box-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: url.appending(path: "sub"),
      withIntermediateDirectories: true
    )
    return url.resolvingSymlinksInPath().path
  }

  /// A policy with the strongest tier that this machine has.
  static func policy(_ folder: String) throws -> SandboxPolicy {
    var policy = SandboxPolicy.workspaceWrite(folder)
    policy.launcher = launcher
    do {
      _ = try Environments.sandbox(policy)
    } catch {
      // The machine denies namespaces or mounts; whatever else fails is ours.
      let stage = error.details?["stage"]?.text
      guard stage == "namespaces" || stage == "root" else { throw error }
      policy.tier = .landlock
      _ = try Environments.sandbox(policy)
    }
    return policy
  }

  /// A model that runs a line and then says that it is done.
  private static func model(_ line: String) -> ScriptedModel {
    ScriptedModel { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls(("c1", "bash", ["command": .string(line)]))
        : ScriptedModel.text("done")
    }
  }

  /// Runs a line in a conversation and returns what the model was told.
  private func run(_ harness: Harness, cwd: String? = nil) async throws -> String {
    let conversation = try await harness.createConversation()
    try await conversation.configure(.init(model: ScriptedModel.reference, cwd: cwd))
    _ = try await conversation.submit("go").wait()
    let entry = try await conversation.view().entries.last { $0.kind == "pi.tool-result" }
    return entry?.model?.first?["content"]?.compactText ?? ""
  }

  @Test func `commands of a conversation run in the sandbox, in the folder that it chose`()
    async throws
  {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let harness = try await Harness.open(
      .memory,
      models: Self.model("echo made > note; cat /root/.profile /etc/shadow; echo shown"),
      extensions: [.codingTools(shell: true)],
      environment: .sandbox(try Self.policy(folder))
    )
    let told = try await run(harness, cwd: "sub")
    try await harness.close()
    #expect(told.contains("shown") && !told.contains("root:"))
    #expect(try String(contentsOfFile: "\(folder)/sub/note", encoding: .utf8) == "made\n")
  }

  @Test func `conversations share a sandbox, or each has its own`() async throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let policy = try Self.policy(folder)
    let kept = Kept()
    let own = EnvironmentChoice.perConversation { target in
      try await kept.environment(of: target.conversationId, policy)
    }
    for (choice, isShared) in [(EnvironmentChoice.sandbox(policy), true), (own, false)] {
      let harness = try await Harness.open(
        .memory,
        models: Self.model("ls $TMPDIR; touch $TMPDIR/mark"),
        extensions: [.codingTools(shell: true)],
        environment: choice
      )
      let first = try await run(harness)
      let second = try await run(harness)
      try await harness.close()
      #expect(!first.contains("mark"))
      #expect(second.contains("mark") == isShared)
    }
  }

  /// Keeps the environments that it made.
  private actor Kept {
    private var environments: [ConversationID: any Environment] = [:]

    func environment(of id: ConversationID, _ policy: SandboxPolicy) throws -> any Environment {
      if let known = environments[id] { return known }
      let made = try Environments.sandbox(policy)
      environments[id] = made
      return made
    }
  }

  @Test func `a sandbox that cannot be had is told of before the store is opened`() async throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var policy = SandboxPolicy.readOnly(folder)
    policy.launcher = "\(folder)/missing"
    let error = await #expect(throws: PerdureError.self) {
      try await Harness.open(
        .memory,
        models: Self.model("true"),
        environment: .sandbox(policy)
      )
    }
    #expect(error?.code == .sandboxUnavailable)
  }
}
