import Glibc
import Perdure
import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue

/// Perdure's side of the exchange of stores with another implementation.
///
///     InteropProcess write STORE SCENARIOS NAME    plays a scenario; may die by SIGKILL in the middle
///     InteropProcess dump STORE                    prints all that the store holds as JSON
///     InteropProcess open STORE SCENARIOS          takes over unfinished work without going on
///     InteropProcess resume STORE SCENARIOS        goes on with unfinished work
///     InteropProcess prune STORE                   removes all that may go, and compacts
///
/// A store whose name ends with `.jsonl` is a folder of JSON lines, any other one a SQLite file.
/// `resume` ends with status 3 if the store needs a feature that this version lacks.
@main
struct Main {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    do {
      switch (arguments.first, arguments.count) {
      case ("dump", 2): try await dump(arguments[1])
      case ("open", 3):
        try await open(arguments[1], try Scenarios(at: arguments[2]), Events(isWriting: false))
          .close()
      case ("prune", 2): try await prune(arguments[1])
      case ("resume", 3): try await resume(arguments[1], try Scenarios(at: arguments[2]))
      case ("write", 4):
        let scenarios = try Scenarios(at: arguments[2])
        try await write(arguments[1], scenarios, try scenarios.steps(arguments[3]))
      default:
        print("usage: InteropProcess write|dump|open|prune|resume STORE [SCENARIOS [NAME]]")
        exit(2)
      }
    } catch let error as PerdureError {
      print("\(error.code.rawValue): \(error)")
      exit(error.code == .unsupportedFeature ? 3 : 1)
    } catch {
      print("\(error)")
      exit(1)
    }
  }

  private static func dump(_ path: String) async throws {
    let storage = try await storage(at: path, readOnly: true)
    var value = try await StoreDump(storage).json()
    value["violations"] = .array(
      try await StoreInvariants.violations(of: storage).map { .string($0) }
    )
    await storage.close()
    print(JSON.object(value).compactText)
  }

  private static func prune(_ path: String) async throws {
    let session = try await Session.open(try await storage(at: path), clock: SystemClock())
    let conversations = try await Page.all {
      try await session.store.scanConversations(ConversationQuery(), $0)
    }
    for record in conversations.reversed() {
      do {
        try await session.delete(record.id)
      } catch let error as PerdureError
        where [.conversationInUse, .conversationBusy].contains(error.code)
      {
        continue
      }
    }
    _ = try await session.removeExpired(tasksEndedBefore: .max, submissionsBefore: .max)
    try await session.store.compact()
    try await session.close()
  }

  private static func resume(_ path: String, _ scenarios: Scenarios) async throws {
    let events = Events(isWriting: false)
    let engine = try await open(path, scenarios, events)
    do {
      try await engine.resume()
      await engine.waitUntilQuiet()
      for obstacle in engine.scheduler.obstacles {
        print("task \(obstacle.task.id) cannot go on: \(obstacle.reason)")
      }
      try await engine.close()
    } catch {
      try? await engine.close()
      throw error
    }
  }

  private static func write(
    _ path: String,
    _ scenarios: Scenarios,
    _ steps: [JSON]
  ) async throws {
    let events = Events(isWriting: true)
    let settings = ScenarioSettings()
    let engine = try await open(path, scenarios, events, settings)
    _ = engine.session.publications.subscribe { events.observe($0) }
    let documents = ScenarioDocuments(scenarios.documents, engine: engine)
    let writer = Writer(engine: engine, events: events, documents: documents, settings: settings)
    try await writer.play(steps)
    await engine.waitUntilQuiet()
    try await engine.close()
  }

  /// A path says by its end what kind of store it names.
  private static func storage(
    at path: String,
    readOnly: Bool = false
  ) async throws -> any Storage {
    // A killed process, not a power failure, is what is played here.
    if path.hasSuffix(".jsonl") {
      return try await JSONLStorage.open(path: path, durability: .normal, readOnly: readOnly)
    }
    return try await SQLiteStorage.open(path: path, durability: .normal, readOnly: readOnly)
  }

  private static func open(
    _ path: String,
    _ scenarios: Scenarios,
    _ events: Events,
    _ settings: ScenarioSettings = ScenarioSettings()
  ) async throws -> Engine {
    let registry = Registry()
    let tools = try scenarios.tools(events: events, effects: path + ".effects")
    try registry.install(
      Extension(name: "interop", tools: tools, hooks: ScenarioCalls.hooks)
    )
    return try await Engine.open(
      try await storage(at: path),
      Engine.Options(
        models: ScenarioModel(events: events),
        registry: registry,
        settings: { settings.current },
        clock: SystemClock(),
        report: { print("report: \($0.message)") }
      )
    )
  }
}
