import Glibc
import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue

/// A process that plays a walk-through on a store and dies at a chosen storage call.
///
///     CrashProcess STORE EFFECTS A1|A2|A3|D1|D2 safe|unsafe CALL before|after
///     CrashProcess sweep FOLDER A1|A2|A3|D1|D2 safe|unsafe
///
/// With CALL 0 it lives. `sweep` plays the walk-through once for every call, killed there, and
/// then again to its end; it prints a line for each. It submits under a fixed request id, so that playing again after a death
/// is the recovery: what was submitted is not submitted twice. At the end it prints the context
/// of the conversation without ids and times, and how many storage calls it made.
@main
struct Main {
  static func main() async {
    let arguments = CommandLine.arguments
    if arguments.count == 5, arguments[1] == "sweep" {
      do {
        try Sweep(program: arguments[0], folder: arguments[2], rest: Array(arguments[3...])).run()
      } catch {
        print("CrashProcess: \(error)")
        exit(1)
      }
      return
    }
    guard arguments.count == 7, let walk = WalkThrough(rawValue: arguments[3]),
      let replay = ReplayPolicy(rawValue: arguments[4]), let call = Int(arguments[5]),
      let moment = KillingStorage.Moment(rawValue: arguments[6])
    else {
      print("usage: CrashProcess STORE EFFECTS A1|A2|A3|D1|D2 safe|unsafe CALL before|after")
      exit(2)
    }
    do {
      // A killed process, not a power failure, is what is played here.
      let path = arguments[1]
      let base: any Storage =
        walk == .removalFromFolder
        ? try await JSONLStorage.open(path: path + ".jsonl", durability: .normal)
        : try await SQLiteStorage.open(path: path, durability: .normal)
      let storage = KillingStorage(base, at: call, moment)
      let play = Play(walk: walk, replay: replay, effects: arguments[2])
      let context = try await play.run(on: storage)
      print(
        JSON.object([
          "context": .array(context), "calls": .int(storage.count),
          "groups": .array(storage.groups.map { .int($0) }),
        ]).compactText
      )
    } catch {
      print("CrashProcess: \(error)")
      exit(1)
    }
  }
}

/// The walk-throughs of appendix A of the semantics that this version can run, and of removal.
enum WalkThrough: String {
  /// A simple answer.
  case answer = "A1"
  /// A parallel tool round.
  case parallelRound = "A2"
  /// A sequential tool round.
  case sequentialRound = "A3"
  /// An answer, the deletion of another conversation with its fork, retention and compaction.
  case removal = "D1"
  /// The same in a folder of JSON lines.
  case removalFromFolder = "D2"

  var callsTools: Bool { self == .parallelRound || self == .sequentialRound }
  var removes: Bool { self == .removal || self == .removalFromFolder }
}

struct Play {
  let walk: WalkThrough
  let replay: ReplayPolicy
  let effects: String

  private var model: ScriptedModel {
    ScriptedModel { [walk] request in
      guard walk.callsTools, ScriptedModel.turn(of: request) == 0 else {
        return ScriptedModel.text("the ", "answer")
      }
      return ScriptedModel.calls(
        ("c1", "note", ["line": "one"]),
        ("c2", "note", ["line": "two"])
      )
    }
  }

  private var tool: Tool {
    Tool(
      name: "note",
      description: "Appends a line to a file.",
      parameters: ["type": "object", "properties": ["line": ["type": "string"]]],
      replay: replay,
      executionMode: walk == .sequentialRound ? .sequential : .parallel
    ) { [effects] call in
      let line = call.arguments["line"]?.text ?? ""
      try append(line, to: effects)
      try call.host.output("noted \(line)", skipped: nil)
      try await call.host.flushOutput()
      return .text("noted \(line)")
    }
  }

  func run(on storage: any Storage) async throws -> [JSON] {
    let registry = Registry()
    try registry.install(Extension(name: "notes", tools: [tool]))
    var settings = Settings()
    // Every piece of an answer is committed, so that there are partials to die in.
    settings.partialIntervalMs = 0
    let engine = try await Engine.open(
      storage,
      Engine.Options(
        models: model,
        registry: registry,
        settings: { [settings] in settings },
        clock: InstantClock(),
        report: { print("report: \($0.message)") }
      )
    )
    let root = try await engine.root()
    try await engine.configure(root, ["model": ScriptedModel.reference.json])
    try await engine.resume()
    let id = try await engine.submit("go", to: root, requestId: "r1")
    _ = try await engine.wait(for: id)
    await engine.waitUntilQuiet()
    if walk.removes { try await Removal(session: engine.session).play() }
    let violations = try await StoreInvariants.violations(of: engine.session.store)
    for violation in violations { print("violation: \(violation)") }
    let entries = try await engine.session.store.scanEntries(
      EntryQuery(conversationId: root),
      PageRequest(limit: 256, order: .ascending)
    ).items
    try await engine.close()
    return ContextView(of: entries).messages.map(withoutTimes)
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
private func append(_ line: String, to path: String) throws {
  let file = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
  guard file >= 0 else { throw PerdureError(.invalidInput, "cannot open \(path)") }
  defer { close(file) }
  let bytes = Array((line + "\n").utf8)
  guard unsafe write(file, bytes, bytes.count) == bytes.count else {
    throw PerdureError(.invalidInput, "cannot write \(path)")
  }
}
