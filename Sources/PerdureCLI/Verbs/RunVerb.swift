import Perdure
import PerdureModel
import PerdureValue

/// `perdure run`: one prompt, one answer.
enum RunVerb {
  static let verb = Verb(
    name: "run",
    summary: "ask one prompt; the answer goes to standard output",
    options: RunOptions.all + [
      Option(
        name: "conversation",
        value: "ID",
        help: "the conversation to continue, or 'new' for one more",
        standard: "the first one"
      ),
      Option(
        name: "when-busy",
        value: "WHAT",
        help: "follow-up, steer or reject: what to do with the\nprompt if there is unfinished work",
        standard: "reject"
      ),
      Option(
        name: "abort-on-interrupt",
        help: "on Ctrl-C abort the work of the store\nand do not leave it to 'perdure resume'"
      ),
    ],
    positionals: ["[PROMPT]"],
    notes: """
      The prompt is read from standard input if it is '-', or if there is none and
      standard input is no terminal. What is used here is recorded in the store, but
      for the key, so that 'perdure resume' can go on if this run is cut off.
      With --when-busy follow-up or steer, unfinished work goes on together with the
      prompt, so the model, script, plugins and the rest must be those of that run.
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
    let conversation = try conversation(arguments)
    let whenBusy = try arguments.choice("when-busy", PromptPolicy.self) ?? .reject
    let approvals = try ApprovalMode(arguments)
    let prompt = try prompt(arguments)
    if let client = try ControlClient.connect(address) {
      try await RemoteRun(client, address, reporter).run(prompt, conversation, whenBusy, arguments)
    }
    let record = try RunOptions.resolve(arguments, recorded: nil)
    try record.requireOutside(address)
    let models = try record.models()
    let store = try await address.open(
      durability: record.durability,
      isOwn: !arguments.has("store")
    )
    do {
      try await Admission.check(store.reader, address, record, conversation, whenBusy)
    } catch {
      await store.close()
      throw error
    }
    let host = try await RunningHost.open(
      store,
      record,
      models: models,
      approvals: approvals,
      reporter: reporter
    )
    do {
      let chosen = try await choose(conversation, host.harness, address)
      if case .new = conversation { reporter.progress("conversation \(chosen.id)") }
      let submission = try await submit(prompt, whenBusy, record, chosen, host, address, reporter)
      host.await(submission.id)
      // Nothing may be able to go on although the submission is not settled.
      host.awaitQuiet()
      // The end by a signal is decided here, because only here its option is known.
      if case .signal(let signal) = await host.end.value, arguments.has("abort-on-interrupt") {
        await Outcome.abort(signal, host, reporter)
      }
      try await finish(submission.id, chosen.id, host, address, reporter)
    } catch {
      throw Remedy.named(await host.close(after: error), address)
    }
  }

  private static func conversation(_ arguments: ParsedArguments) throws -> ChosenConversation {
    guard let text = arguments.value("conversation") else { return .first }
    if text == "new" { return .new }
    guard let value = Int64(text), let id = ConversationID(value) else {
      throw UsageError.make(
        "--conversation cannot be '\(text)'",
        "give the number of a conversation, or 'new'"
      )
    }
    return .existing(id)
  }

  private static func prompt(_ arguments: ParsedArguments) throws -> String {
    var prompt = arguments.positionals.first
    if prompt == nil, HostText.Stream.input.isTerminal {
      throw UsageError.make(
        "run needs a prompt",
        "write perdure run \"PROMPT\", or '-' to read standard input"
      )
    }
    if prompt == nil || prompt == "-" {
      let text = String(decoding: try HostText.standardInput(), as: UTF8.self)
      prompt = text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
    guard let prompt, prompt.contains(where: { !$0.isWhitespace }) else {
      throw UsageError.make("the prompt is empty", "give it in quotes, or on standard input")
    }
    return prompt
  }

  /// Returns the conversation that is meant, creating it if it is to be a new one.
  static func choose(
    _ chosen: ChosenConversation,
    _ harness: Harness,
    _ address: StoreAddress
  ) async throws -> Conversation {
    if let refusal = harness.refusal { throw refusal }
    switch chosen {
    case .first: return try await harness.root()
    case .new: return try await harness.createConversation()
    case .existing(let id):
      guard let conversation = try await harness.conversation(id) else {
        throw Admission.missing(id, address)
      }
      return conversation
    }
  }

  /// Records how this run goes, then places the prompt: a crash in between leaves an idle store.
  private static func submit(
    _ prompt: String,
    _ whenBusy: PromptPolicy,
    _ record: RunRecord,
    _ conversation: Conversation,
    _ host: RunningHost,
    _ address: StoreAddress,
    _ reporter: Reporter
  ) async throws -> Submission {
    let harness = host.harness
    if try await harness.reader.extra(scope: RunRecord.scope, id: 0) != record.json {
      try await harness.setExtra(scope: RunRecord.scope, id: 0, record.json)
    }
    try await host.noteEnvironment()
    try await configure(conversation, record, host)
    host.start(
      [
        "store": .string(address.text), "conversation": conversation.id.json,
        "model": record.model.json,
      ],
      address,
      record
    )
    return try await conversation.submit(prompt, whenBusy: whenBusy.whenBusy)
  }

  /// Lets a conversation use the model of a run, and the plugins that are loaded now.
  static func configure(
    _ conversation: Conversation,
    _ record: RunRecord,
    _ host: RunningHost
  ) async throws {
    let agent = try await conversation.agent
    var change = Conversation.AgentChange()
    if agent["model"] != record.model.json { change.model = record.model }
    // A conversation without a choice of its own has every extension that is there.
    let ids = host.extensions
    if let chosen = agent["extensions"], chosen != .array(ids.map { .string($0) }) {
      change.extensions = .only(ids)
    }
    if change.model != nil || change.extensions != nil {
      try await conversation.configure(change)
    }
  }

  private static func finish(
    _ id: SubmissionID,
    _ conversation: ConversationID,
    _ host: RunningHost,
    _ address: StoreAddress,
    _ reporter: Reporter
  ) async throws -> Never {
    var end = await host.end.value
    // The submission may have been settled by the very last thing that could run.
    if case .quiet = end, let record = host.settled.first(where: { $0.id == id }) {
      end = .settled(record)
    }
    switch end {
    case .settled(let record):
      try await Outcome.end([record], in: conversation, host, address, reporter)
    case .asked:
      await host.close()
      let hint = "`\(address.resumeCommand)` continues"
      let error = PerdureError("interrupted", "another command closed this run", hint: hint)
      reporter.end(.temporary, ["conversation": conversation.json], error: error)
    case .quiet:
      let pending = try await host.harness.pendingApprovals()
      if !pending.isEmpty {
        await host.close()
        let error = ApprovalText.error(pending, address)
        reporter.end(
          ExitStatus(error),
          [
            "conversation": conversation.json,
            "approvals": .array(pending.map { .object(ApprovalText.members($0)) }),
          ],
          error: error
        )
      }
      let error = try await stopped(id, conversation, host, address)
      let obstacles = try await host.obstacles()
      await host.close()
      reporter.end(
        ExitStatus(error),
        [
          "conversation": conversation.json,
          "obstacles": .array(obstacles.map { .string($0) }),
        ],
        error: error
      )
    case .signal(let signal): await Outcome.end(signal, host, address, reporter)
    case .failed(let error): throw error
    }
  }
  /// Says why nothing runs although there is no answer.
  private static func stopped(
    _ id: SubmissionID,
    _ conversation: ConversationID,
    _ host: RunningHost,
    _ address: StoreAddress
  ) async throws -> PerdureError {
    let obstacles = try await host.obstacles()
    guard obstacles.isEmpty, try await host.isQueued(id) else {
      return PerdureError(
        "blocked",
        "the run cannot go on",
        hint: obstacles.first.map { Outcome.hint($0, address) }
          ?? "see what blocks it and resume it then",
        cause: obstacles.first
      )
    }
    return PerdureError(
      "queued",
      "the prompt waits in conversation \(conversation), because the run before it got no answer",
      hint: "it is asked with the next prompt there"
    )
  }
}
