import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What an asynchronous plugin still does after its call was given up, as the engine sees it.
@Suite(.timeLimit(.minutes(5))) struct LateCompletionTests {
  /// A harness with the adversary, whose model calls the tool `keep` once in each conversation.
  private struct Scene {
    let bench: PluginBench
    let clock: ManualClock
    let harness: Harness
    /// The conversations whose call the plugin has.
    let ready: AsyncStream<ConversationID>
    /// One element for each call that waits for another one.
    let waiting: AsyncStream<Void>

    func nextReady() async -> ConversationID? {
      for await conversation in ready { return conversation }
      return nil
    }

    func nextWaiting() async { for await _ in waiting { return } }
  }

  private static let model = ScriptedModel { request in
    ScriptedModel.turn(of: request) == 0
      ? ScriptedModel.calls(("a", "keep", [:])) : ScriptedModel.text("done")
  }

  /// The same extension, which tells when the plugin has put something out and so has a call.
  private static func watched(
    _ value: Extension,
    _ isReady: @escaping @Sendable (ConversationID) -> Void
  ) -> Extension {
    var value = value
    value.tools = value.tools.map { tool in
      var watched = tool
      watched.execute = { call in
        let watch = Task {
          while !Task.isCancelled {
            if try call.host.retainedOutput().text == "ready" {
              return isReady(call.conversationId)
            }
            await Task.yield()
          }
        }
        defer { watch.cancel() }
        return try await tool.execute(call)
      }
      return watched
    }
    return value
  }

  private func with(_ body: (Scene) async throws -> Void) async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let (ready, isReady) = AsyncStream.makeStream(of: ConversationID.self)
      let (waiting, waits) = AsyncStream.makeStream(of: Void.self)
      let harness = try await Harness.open(
        .memory,
        models: Self.model,
        extensions: [Self.watched(bench.plugin.extensionValue) { isReady.yield($0) }],
        clock: clock,
        onReport: { if $0.type == "tool_waiting" { waits.yield() } }
      )
      let scene = Scene(
        bench: bench,
        clock: clock,
        harness: harness,
        ready: ready,
        waiting: waiting
      )
      try await body(scene)
      try await harness.close()
    }
  }

  private func conversation(_ harness: Harness) async throws -> Conversation {
    try await harness.createConversation(agent: .init(model: ScriptedModel.reference))
  }

  /// Lets the plugin take a call, aborts it and waits until it is given up.
  private func giveUp(_ scene: Scene) async throws {
    let first = try await conversation(scene.harness)
    _ = try await first.submit("hi")
    #expect(await scene.nextReady() == first.id)
    let abort = Task { try await first.abort() }
    await scene.clock.waitForSleeper(ofExactly: .milliseconds(1_000))
    scene.clock.advance(by: .milliseconds(1_300))
    try await abort.value
    await scene.bench.hasStrikes(1)
  }

  @Test func `the next call of an unsafe tool waits for the late completion`() async throws {
    try await with { scene in
      try await giveUp(scene)
      let second = try await conversation(scene.harness)
      let submission = try await second.submit("hi")
      await scene.nextWaiting()
      // The plugin still has the first call and no other.
      #expect(try await scene.bench.text("complete_kept") == "-3")
      #expect(await scene.nextReady() == second.id)
      #expect(try await scene.bench.text("complete_kept") == "0")
      #expect(try await submission.answer() == "done")
    }
  }

  @Test func `closing waits for a call that was given up no second time`() async throws {
    try await with { scene in
      try await giveUp(scene)
      // The clock stands still.
      try await scene.harness.close()
      #expect(await scene.bench.plugin.close() == [])
    }
  }

  @Test func `a call that waits goes on when the plugin is closed`() async throws {
    try await with { scene in
      try await giveUp(scene)
      let second = try await conversation(scene.harness)
      let submission = try await second.submit("hi")
      await scene.nextWaiting()
      #expect(await scene.bench.plugin.close() == [])
      #expect(try await submission.answer() == "done")
    }
  }
}
