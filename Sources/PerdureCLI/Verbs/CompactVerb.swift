import Perdure
import PerdureModel
import PerdureValue

/// `perdure compact`: the older part of a conversation becomes a summary.
enum CompactVerb {
  static let verb = Verb(
    name: "compact",
    summary: "replace the older part of a conversation by a summary, for the model",
    options: RunOptions.forResume + [
      Option(name: "instructions", value: "TEXT", help: "what the summary should dwell on")
    ],
    positionals: ["[CONVERSATION]"],
    notes: """
      Nothing is deleted: 'perdure log' still shows everything. What is not given is as the
      last run recorded it. Unfinished work of the store goes on, too. The summary goes to
      standard output; without an older part there is none.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try LogVerb.conversation(arguments)
    let address = try StoreAddress(arguments)
    if let client = try ControlClient.connect(address) {
      try await RemoteRun(client, address, reporter).compact(id, arguments)
    }
    let store = try await address.openExisting(
      isNamed: arguments.has("store"),
      durability: try arguments.choice("durability", Durability.self) ?? .full
    )
    let record: RunRecord
    let models: any ModelProvider
    do {
      let recorded = try await store.reader.extra(scope: RunRecord.scope, id: 0)
      record = try RunOptions.resolve(arguments, recorded: recorded.flatMap { RunRecord(json: $0) })
      if !arguments.has("plugin") { try ResumeVerb.verify(record.plugins, address) }
      models = try record.models()
    } catch {
      await store.close()
      throw error
    }
    let host = try await RunningHost.open(
      store,
      record,
      models: models,
      approvals: .wait,
      reporter: reporter
    )
    do {
      if let refusal = host.harness.refusal { throw refusal }
      guard let conversation = try await host.harness.conversation(id) else {
        throw Admission.missing(id, address)
      }
      host.start(["store": .string(address.text), "conversation": id.json], address, record)
      let task = try await conversation.compact(instructions: arguments.value("instructions"))
      host.awaitQuiet()
      switch await host.end.value {
      case .signal(let signal): await Outcome.end(signal, host, address, reporter)
      case .failed(let error): throw error
      case .quiet, .settled, .asked:
        let result = try await outcome(of: task, host)
        await host.close()
        end(result, reporter)
      }
    } catch {
      throw await host.close(after: error)
    }
  }

  /// Prints the summary, or why there is none, and ends.
  private static func end(_ result: HostResult, _ reporter: Reporter) -> Never {
    if !reporter.isJSON, let text = result.members["text"]?.text { reporter.print(text) }
    if let note = result.members["note"]?.text { reporter.progress(note) }
    reporter.end(
      result.failure.map { ExitStatus($0) } ?? .ok,
      result.members,
      error: result.failure
    )
  }

  /// Returns the summary that a task made.
  static func outcome(of task: TaskID, _ host: RunningHost) async throws -> HostResult {
    let reads = host.harness.reader.reads
    var result = HostResult()
    result.members["task"] = task.json
    switch try await reads.task(task)?.state.outcome {
    case .completed(let value):
      guard let id = SubmissionID(value["submissionId"]) else {
        result.members["note"] = "nothing to summarize: the conversation is short enough"
        break
      }
      let submission = try await reads.submission(id)
      result.members["submission"] = id.json
      if let entry = submission?.entry {
        result.members["entry"] = entry.json
        result.members["text"] = .string(try await host.answer(entry))
      } else if submission?.status == .queued {
        result.members["note"] = "the summary is placed at the end of the run"
      } else {
        result.failure = PerdureError("stale", "the conversation went on without the summary")
      }
    case .failed(let message, let detail, _):
      let code = detail?["reason"]?.text ?? "model_error"
      result.failure = PerdureError(PerdureError.Code(rawValue: code), message)
    case let other:
      result.failure = PerdureError(
        "blocked",
        "there is no summary (\(other?.json.compactText ?? "none"))"
      )
    }
    return result
  }
}
