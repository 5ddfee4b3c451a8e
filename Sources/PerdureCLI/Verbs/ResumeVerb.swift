import Perdure
import PerdureModel
import PerdureValue

/// `perdure resume`: unfinished work goes on.
enum ResumeVerb {
  static let verb = Verb(
    name: "resume",
    summary: "continue the unfinished work of a store, and end when it is done",
    options: RunOptions.forResume,
    notes: """
      What is not given is as the last run recorded it. --plugin replaces the recorded
      plugins, all of them. The answers that are completed go to standard output;
      without unfinished work there is none.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    SignalWatch.handleByEnding(reporter)
    let address = try StoreAddress(arguments)
    let approvals = try ApprovalMode(arguments)
    if let client = try ControlClient.connect(address) {
      try await RemoteRun(client, address, reporter).resume(arguments)
    }
    let store = try await address.openExisting(
      isNamed: arguments.has("store"),
      durability: try arguments.choice("durability", Durability.self) ?? .full
    )
    let plan: Plan
    do {
      guard let found = try await Plan(store.reader, arguments, address) else {
        let queued = try await store.reader.queuedPrompts()
        await store.close()
        return try nothing(address, reporter, queued)
      }
      plan = found
    } catch {
      await store.close()
      throw error
    }
    return try await resume(store, plan, approvals, address, reporter)
  }

  private static func nothing(
    _ address: StoreAddress,
    _ reporter: Reporter,
    _ queued: [SubmissionRecord]
  ) throws -> ExitStatus {
    reporter.header(["store": .string(address.text)])
    var members: JSONObject = ["answers": []]
    if !queued.isEmpty { members["queued"] = QueuedPrompts.json(queued) }
    if !reporter.isJSON {
      for sentence in QueuedPrompts.sentences(queued, afterRun: false) { reporter.warn(sentence) }
    }
    reporter.end(.ok, members)
  }

  /// How the work goes on.
  private struct Plan {
    var record: RunRecord
    var recorded: RunRecord?
    var models: any ModelProvider
    /// The conversations whose model is to be changed.
    var conversations: [ConversationID] = []

    /// Makes a plan; `nil` if there is nothing to do.
    init?(
      _ reader: StoreReader,
      _ arguments: ParsedArguments,
      _ address: StoreAddress
    ) async throws {
      let live = try await reader.liveTasks()
      // What is only queued waits for the next prompt.
      if live.isEmpty { return nil }
      recorded = try await reader.extra(scope: RunRecord.scope, id: 0).flatMap {
        RunRecord(json: $0)
      }
      record = try RunOptions.resolve(arguments, recorded: recorded)
      try record.requireOutside(address)
      if !arguments.has("plugin") { try ResumeVerb.verify(record.plugins, address) }
      models = try record.models()
      if recorded?.model != record.model {
        conversations = Set(live.map { $0.conversationId }).sorted()
      }
    }
  }

  /// Throws unless each plugin is the very file that was recorded.
  static func verify(
    _ plugins: [RunRecord.PluginFile],
    _ address: StoreAddress
  ) throws {
    let options = plugins.map { " --plugin \(ShellWord.quoted($0.path))" }.joined()
    for plugin in plugins {
      if HostText.kind(ofPath: plugin.path) == .nothing {
        throw PerdureError(
          .pluginRefused,
          "the plugin \(plugin.path) of the last run does not exist any more",
          hint: "put it back, or name the plugins with --plugin"
        )
      }
      let digest = try PluginInspection(path: plugin.path).digest
      if digest != plugin.digest {
        throw PerdureError(
          .pluginRefused,
          "the plugin \(plugin.path) is not the file of the last run",
          hint: "to accept the new one, run `\(address.resumeCommand)\(options)`",
          details: ["recorded": .string(plugin.digest), "found": .string(digest)]
        )
      }
    }
  }

  private static func resume(
    _ store: OpenStore,
    _ plan: Plan,
    _ approvals: ApprovalMode,
    _ address: StoreAddress,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let host = try await RunningHost.open(
      store,
      plan.record,
      models: plan.models,
      approvals: approvals,
      reporter: reporter
    )
    do {
      // Before anything is written: a store that is refused stays as it is.
      if let refusal = host.harness.refusal { throw refusal }
      if plan.record != plan.recorded {
        try await host.harness.setExtra(scope: RunRecord.scope, id: 0, plan.record.json)
      }
      try await host.noteEnvironment()
      for id in plan.conversations {
        try await host.harness.conversation(id)?.configure(.init(model: plan.record.model))
      }
      host.start(
        ["store": .string(address.text), "model": plan.record.model.json],
        address,
        plan.record
      )
      try await host.harness.resume()
      host.awaitQuiet()
      switch await host.end.value {
      case .signal(let signal): await Outcome.end(signal, host, address, reporter)
      case .failed(let error): throw error
      case .quiet, .settled, .asked:
        try await Outcome.end(
          host.settled,
          obstacles: try await host.obstacles(),
          host,
          address,
          reporter
        )
      }
    } catch {
      throw await host.close(after: error)
    }
  }
}
