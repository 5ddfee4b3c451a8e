import Perdure
import PerdureModel
import PerdureValue

/// `perdure serve`: a host that stays up.
enum ServeVerb {
  static let verb = Verb(
    name: "serve",
    summary: "work on a store until told to stop, and take requests of other commands",
    options: RunOptions.forOwnStores.map { option in
      var option = option
      if option.name == "approvals" {
        option.help = "wait for 'perdure approve', or deny calls that need an approval"
        option.standard = "wait"
      }
      return option
    },
    notes: """
      Unfinished work goes on. Other commands for this store reach it through the socket
      beside the store, which is for its user alone: 'perdure run' gives it a prompt, and
      'perdure close' or Ctrl-C ends it. What is not given is as the last run recorded it.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  /// Throws if somebody works on the store, with what can be done about that.
  private static func refuseIfServed(_ address: StoreAddress) async throws {
    // What else may be at the place of the socket is told of when it is needed.
    guard let client = (try? ControlClient.connect(address)) ?? nil else { return }
    let process = try await client.ask("hello")["process"]?.int.map { "process \($0)" }
    throw PerdureError(
      .storeInUse,
      "\(process ?? "another process") works on \(address.text) already",
      hint: "`\(address.command("run")) PROMPT` lets it answer a prompt, and"
        + " `\(address.command("close"))` ends it"
    )
  }

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    SignalWatch.handleByEnding(reporter)
    let address = try StoreAddress(arguments)
    guard address.controlPath != nil else {
      throw UsageError.make(
        "a store in memory cannot be served",
        "give the path of a file or folder"
      )
    }
    guard arguments.value("approvals") != "ask" else {
      throw UsageError.make("--approvals cannot be 'ask' here", "use wait or deny")
    }
    let approvals = try arguments.has("approvals") ? ApprovalMode(arguments) : .wait
    try await refuseIfServed(address)
    // What cannot be run leaves no empty store behind.
    if !address.exists {
      let record = try RunOptions.resolve(arguments, recorded: nil)
      try record.requireOutside(address)
      _ = try record.models()
    }
    let store = try await address.open(
      durability: try arguments.choice("durability", Durability.self) ?? .full,
      isOwn: !arguments.has("store")
    )
    let recorded: RunRecord?
    let record: RunRecord
    let models: any ModelProvider
    do {
      recorded = try await store.reader.extra(scope: RunRecord.scope, id: 0).flatMap {
        RunRecord(json: $0)
      }
      record = try RunOptions.resolve(arguments, recorded: recorded)
      try record.requireOutside(address)
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
      approvals: approvals,
      reporter: reporter
    )
    do {
      if let refusal = host.harness.refusal { throw refusal }
      if record != recorded {
        try await host.harness.setExtra(scope: RunRecord.scope, id: 0, record.json)
      }
      try await host.noteEnvironment()
      try host.takeRequests(address, record)
      host.report([
        "store": .string(address.text), "model": record.model.json,
        "control": .string(address.controlPath ?? ""),
      ])
      if !reporter.isJSON { reporter.print("serving \(address.text)") }
      try await host.harness.resume()
      switch await host.end.value {
      case .failed(let error): throw error
      case .signal(let signal): await Outcome.end(signal, host, address, reporter)
      case .asked, .quiet, .settled:
        await host.close()
        reporter.end(.ok)
      }
    } catch {
      throw Remedy.named(await host.close(after: error), address)
    }
  }
}
