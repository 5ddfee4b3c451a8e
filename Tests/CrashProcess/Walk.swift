import Glibc
import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// The walk-throughs of appendix A of the semantics that this version can run.
enum WalkThrough: String {
  /// A simple answer.
  case answer = "A1"
  /// A parallel tool round.
  case parallelRound = "A2"
  /// A sequential tool round.
  case sequentialRound = "A3"
  /// An input that steers the run, from a tool body.
  case steer = "A4"
  /// An input that steers the run, from the stream of its last answer.
  case lateSteer = "A5"
  /// A further input and a reset, from a tool body.
  case reset = "A6"
  /// A second input whose context is too long, so that its run waits for a summary.
  case threshold = "A7"
  /// A second input whose context the model refuses as too long.
  case overflow = "A8"
  /// An abort while tools run, and a further input behind it.
  case abort = "A9"
  /// The same while calls run one after the other.
  case sequentialAbort = "A9s"
  /// A tool that asks a conversation of its own and waits for the answer.
  case subagent = "A10"
  /// A tool that leaves work in a conversation of its own, and is held until that has ended.
  case heldSubagent = "A10h"
  /// A task that faults while a run with calls is live below it.
  case fault = "A11"
  /// A call that begins a task in the background.
  case background = "B1"
  /// Answers that the provider defers.
  case deferral = "F1"
  /// Calls that wait for a person.
  case approval = "P1"
  /// A tool that calls other tools.
  case nestedCalls = "N1"
  /// An answer, the deletion of another conversation with its fork, retention and compaction.
  case removal = "D1"
  /// A request that fails at first and is sent again.
  case retry = "retry"

  var callsTools: Bool { self != .answer && self != .retry && self != .removal && !summarizes }
  var aborts: Bool { self == .abort || self == .sequentialAbort }
  var summarizes: Bool { self == .threshold || self == .overflow }
  /// How many submissions the walk makes while there is a run.
  var queued: Int {
    switch self {
    case .steer, .lateSteer: 1
    case .reset: 2
    default: 0
    }
  }
}

/// A walk-through on a store, from whatever it holds on.
struct Walk {
  let walk: WalkThrough
  let replay: ReplayPolicy
  let effects: String

  private func model(_ host: WalkHost) -> any ModelProvider {
    let script = script
    guard walk == .lateSteer else { return script }
    return ActingModel(script: script) { try await host.submitted(walk) }
  }

  private var script: ScriptedModel {
    ScriptedModel(fetch: { Self.turn(Int($0["turn"]?.int ?? 0)) }, answer)
  }

  private func answer(_ request: ModelRequest) -> [[ModelEvent]] {
    if walk == .deferral {
      let turn = ScriptedModel.turn(of: request)
      return [[.deferred(handle: ["pollAfterMs": 0, "turn": .int(Int64(turn))])]]
    }
    if request.purpose == .summary { return ScriptedModel.text("all ", "in short") }
    if walk == .retry, request.attempt < 2 {
      return ScriptedModel.failure(ProviderFailure(.retry, "busy"))
    }
    let asked = request.messages.last { $0["role"] == "user" }?["content"]?.text
    if walk.summarizes {
      if asked == "go" { return ScriptedModel.text(String(repeating: "long ", count: 200)) }
      let isShort = request.messages.contains { "\($0)".contains("<summary>") }
      if walk == .overflow, !isShort {
        return ScriptedModel.failure(ProviderFailure(.overflow, "too long"))
      }
    }
    guard walk.callsTools, ScriptedModel.turn(of: request) == 0 else {
      return ScriptedModel.text("the ", "answer")
    }
    if let outer = walk.outerTool, asked == "go" {
      return ScriptedModel.calls(("c1", outer, [:]))
    }
    guard asked == "go" || asked == Subagent.question else {
      return ScriptedModel.text("the ", "answer")
    }
    return Self.turn(0)
  }

  /// Two calls, and then an answer.
  private static func turn(_ turn: Int) -> [[ModelEvent]] {
    guard turn == 0 else { return ScriptedModel.text("the ", "answer") }
    return ScriptedModel.calls(("c1", "note", ["line": "one"]), ("c2", "note", ["line": "two"]))
  }

  private func tool(_ started: AsyncStream<Void>.Continuation, _ host: WalkHost) -> Tool {
    Tool(
      name: "note",
      description: "Appends a line to a file.",
      parameters: ["type": "object", "properties": ["line": ["type": "string"]]],
      replay: replay,
      executionMode: walk == .sequentialRound || walk == .sequentialAbort
        ? .sequential : .parallel,
      approval: walk == .approval ? .required : .never
    ) { [effects, walk] call in
      let line = call.arguments["line"]?.text ?? ""
      try append(line, to: effects)
      try call.host.output("noted \(line)", skipped: nil)
      try await call.host.flushOutput()
      started.yield()
      if walk == .background { try await BackgroundTask().begin(call) }
      if walk == .steer || walk == .reset { try await host.submitted(walk) }
      if walk.aborts || walk == .fault { try await call.host.sleep(milliseconds: 600_000) }
      return .text("noted \(line)")
    }
  }

  func play(on storage: any Storage) async throws -> JSONObject {
    let (starts, started) = AsyncStream<Void>.makeStream()
    let host = WalkHost()
    let registry = Registry()
    try registry.install(
      Extension(
        name: "notes",
        tools: [tool(started, host)] + Subagent.tools(of: walk, replay),
        tasks: [FaultingTask(starts: starts), BackgroundTask()]
      )
    )
    var settings = Settings()
    // Every piece of an answer is committed, so that there are partials to die in.
    settings.partialIntervalMs = 0
    settings.retry.baseDelayMs = 0
    settings.waitsForApprovals = walk == .approval
    if walk == .threshold {
      settings.compaction.policy.reserveTokens = 999_800
      settings.compaction.policy.keepRecentTokens = 20
      settings.compaction.policy.backgroundTokens = 0
    }
    let engine = try await Engine.open(
      storage,
      Engine.Options(
        models: model(host),
        registry: registry,
        settings: { [settings] in settings },
        clock: InstantClock(),
        report: { print("report: \($0.message)") }
      )
    )
    host.set(engine)
    do {
      let result = try await play(engine, starts, host)
      try await engine.close()
      return result
    } catch {
      try? await engine.close()
      throw error
    }
  }

  private func play(
    _ engine: Engine,
    _ starts: AsyncStream<Void>,
    _ host: WalkHost
  ) async throws -> JSONObject {
    let root = try await engine.root()
    try await engine.configure(root, ["model": ScriptedModel.reference.json])
    try await engine.resume()
    if walk == .fault { return try await FaultingTask.play(engine, root) }
    let id = try await engine.submit("go", to: root, requestId: "r1")
    if walk == .approval { try await Approver(engine: engine).answer(until: id) }
    try await interfere(engine, root, starts, until: id)
    var settled = [try await engine.wait(for: id)]
    if walk.aborts || walk.summarizes {
      let second = try await engine.submit("and then", to: root, requestId: "r2")
      settled.append(try await engine.wait(for: second))
    }
    for id in try await host.submitted(walk) { settled.append(try await engine.wait(for: id)) }
    await engine.waitUntilQuiet()
    var violations: [String] = []
    if walk == .removal { violations = try await Removal(session: engine.session).play() }
    if walk == .background { violations = try await BackgroundTask().problems(engine.session) }
    violations += try await StoreInvariants.violations(of: engine.session.store)
    let entries = try await engine.session.store.scanEntries(
      EntryQuery(conversationId: root),
      PageRequest(limit: 256, order: .ascending)
    ).items
    let submissions = try await engine.session.store.scanSubmissions(
      SubmissionQuery(conversationId: root),
      PageRequest(limit: 9)
    )
    return [
      "context": .array(ContextView(of: entries).messages.map(withoutTimes)),
      "settled": .array(settled.map { $0.json["reason"] ?? .string($0.status.rawValue) }),
      "submissions": .int(Int64(submissions.items.count)),
      "live": .int(Int64(engine.session.liveTasks.count)),
      "violations": .array(violations.map { .string($0) }),
    ]
  }

  /// What somebody does while a call runs; nothing if no call comes to run.
  private func interfere(
    _ engine: Engine,
    _ root: ConversationID,
    _ starts: AsyncStream<Void>,
    until id: SubmissionID
  ) async throws {
    guard walk.aborts else { return }
    try await withThrowingTaskGroup { group in
      group.addTask {
        for await _ in starts {
          _ = try await engine.abort(root)
          return
        }
      }
      group.addTask { _ = try await engine.wait(for: id) }
      try await group.next()
      group.cancelAll()
    }
  }

  private func withoutTimes(_ message: JSON) -> JSON {
    guard var object = message.object else { return message }
    object["timestamp"] = nil
    object["durationMs"] = nil
    return .object(object)
  }
}

/// The machine's wall clock, on which nobody waits long.
struct InstantClock: HostClock {
  func now() -> Int64 { Int64(time(nil)) * 1_000 }
  func monotonic() -> Int64 { Int64(time(nil)) * 1_000_000_000 }
  func sleep(nanoseconds: Int64) async {
    try? await Task.sleep(nanoseconds: UInt64(max(0, nanoseconds)))
  }
}

/// Appends a line, as an effect that cannot be taken back.
func append(_ line: String, to path: String) throws {
  let file = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
  guard file >= 0 else { throw PerdureError(.invalidInput, "cannot open \(path)") }
  defer { close(file) }
  let bytes = Array((line + "\n").utf8)
  guard unsafe write(file, bytes, bytes.count) == bytes.count else {
    throw PerdureError(.invalidInput, "cannot write \(path)")
  }
}
