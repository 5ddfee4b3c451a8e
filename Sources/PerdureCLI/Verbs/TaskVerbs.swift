import Perdure
import PerdureModel
import PerdureValue

/// `perdure task list`, `show` and `retry`: the tasks of a store.
enum TaskVerbs {
  static let all = [list, show, retry]

  private static let list = Verb(
    name: "task list",
    summary: "list the unfinished tasks of a store, and what keeps them",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) } + [
      Option(name: "all", help: "list ended tasks, too"),
      Option(name: "conversation", value: "ID", help: "only those of this conversation"),
    ],
    notes: """
      What keeps a task is known only while a process works on the store, except of a parked one:
      its process ended again and again while it ran, so it is not run any more.
      'perdure task retry' lets it go on.
      """,
    hasEvents: true,
    body: { try await list($0, $1) }
  )

  private static let show = Verb(
    name: "task show",
    summary: "show all that the store holds of a task",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) },
    positionals: ["ID"],
    body: { try await show($0, $1) }
  )

  private static let retry = Verb(
    name: "task retry",
    summary: "let a parked task go on, which was cut off too often in a row",
    options: StoreChange.options,
    positionals: ["ID"],
    notes: """
      'perdure task list' says which are parked. A process that works on the store goes on with it
      at once, and else 'perdure resume' does. It is parked again if it is cut off as often.
      """,
    body: { try await retry($0, $1) }
  )

  private static func retry(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try id(arguments)
    let address = try StoreAddress(arguments)
    let isRun = address.owner != nil
    let result: JSONObject
    do { result = try await StoreChange.perform(.retry(id), arguments) } catch let error
      as PerdureError
      where error.code == .notFound && error.message.hasPrefix("task ")
    {
      throw missing(id, address)
    }
    let goesOn = isRun ? "it goes on" : "`\(address.resumeCommand)` goes on with it"
    StoreChange.say(
      result["retried"] == true
        ? "task \(id) is no longer parked; \(goesOn)" : "task \(id) is not parked",
      .object(result),
      reporter
    )
    return .ok
  }

  private static func id(_ arguments: ParsedArguments) throws -> TaskID {
    let text = arguments.positionals.first ?? ""
    guard let value = Int64(text), let id = TaskID(value) else {
      throw UsageError.make("'\(text)' is no task", "give its number; 'perdure task list' lists it")
    }
    return id
  }

  private static func missing(_ id: TaskID, _ address: StoreAddress) -> PerdureError {
    PerdureError(
      .notFound,
      "the store \(address.text) has no task \(id)",
      hint: "'perdure task list --all' lists all"
    )
  }

  private static func list(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let conversation = try arguments.number("conversation", in: 1...Int64.max)
      .flatMap { ConversationID($0) }
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    reporter.header(["store": .string(address.text)])
    let conditions = try await conditions(address)
    var cursor: Cursor?
    repeat {
      let page = try await reader.reads.scanTasks(
        TaskQuery(conversationId: conversation),
        PageRequest(limit: 256, cursor: cursor)
      )
      for task in page.items where arguments.has("all") || task.state.status != .terminal {
        let condition = TaskText.condition(of: task, conditions)
        if reporter.isJSON {
          reporter.event("task", TaskText.members(task, condition))
        } else {
          reporter.print(TaskText.line(task, condition))
        }
      }
      if !HostText.waitForOutput() { break }
      cursor = page.next
    } while cursor != nil
    await reader.close()
    reporter.end(.ok)
  }

  /// What keeps the live tasks, if a process knows.
  private static func conditions(_ address: StoreAddress) async throws -> [TaskID: JSON] {
    guard let client = try ControlClient.connect(address) else { return [:] }
    let tasks = try await client.ask("tasks")["tasks"]?.array ?? []
    var conditions: [TaskID: JSON] = [:]
    for task in tasks {
      if let id = TaskID(task["id"]), let condition = task["condition"] {
        conditions[id] = condition
      }
    }
    return conditions
  }

  private static func show(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try id(arguments)
    let address = try StoreAddress(arguments)
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    guard let task = try await reader.reads.task(id) else { throw missing(id, address) }
    await reader.close()
    let condition = TaskText.condition(of: task, try await conditions(address))
    let json = JSON.object(TaskText.members(task, condition))
    if reporter.isJSON {
      reporter.printStyled(String(decoding: EventLine.bytes(json), as: UTF8.self))
    } else {
      for (key, value) in json.object ?? [:] {
        reporter.print("\(key): \(value.text ?? value.compactText)")
      }
    }
    return .ok
  }
}

/// How tasks are shown.
enum TaskText {
  /// Returns the record of a task with what keeps it.
  static func members(_ task: TaskRecord, _ condition: JSON?) -> JSONObject {
    var members = task.json.object ?? [:]
    members["condition"] = condition
    return members
  }

  /// Returns the record of a live task with what keeps it.
  static func members(_ task: TaskRecord, _ condition: TaskCondition) -> JSONObject {
    members(task, json(condition))
  }

  /// Returns what keeps a task, as far as that is known.
  static func condition(of task: TaskRecord, _ conditions: [TaskID: JSON]) -> JSON? {
    if task.state.status == .terminal { return nil }
    // Without a process the record tells this alone.
    return conditions[task.id] ?? (task.isParked ? json(.blocked(reason: parked, error: nil)) : nil)
  }

  /// Returns a line about a task.
  static func line(_ task: TaskRecord, _ condition: JSON?) -> String {
    var words = ["\(task.id)", task.kind.string, "conversation \(task.conversationId)"]
    if condition?["reason"]?.text == parked {
      words.append("parked: cut off \(task.restarts ?? 0) times in a row; 'task retry \(task.id)'")
    } else {
      words.append(condition.map(sentence) ?? task.state.status.rawValue)
    }
    return words.joined(separator: "  ")
  }

  private static let parked = "restart_limit"

  private static func json(_ condition: TaskCondition) -> JSON {
    switch condition {
    case .running: return ["state": "running"]
    case .completing: return ["state": "completing"]
    case .waiting(let on): return ["state": "waiting", "on": .array(on.map { $0.json })]
    case .sleeping(let until): return ["state": "sleeping", "until": .int(until)]
    case .blocked(let reason, let error):
      var object: JSONObject = ["state": "blocked", "reason": .string(reason)]
      object["error"] = error.map { .string($0) }
      return .object(object)
    case .ready(let migrates): return ["state": "ready", "migrates": .bool(migrates)]
    }
  }

  private static func sentence(_ condition: JSON) -> String {
    let state = condition["state"]?.text ?? ""
    if let reason = condition["reason"]?.text {
      let error = condition["error"]?.text.map { " (\($0))" } ?? ""
      return "\(state): \(reason)\(error)"
    }
    if let until = condition["until"]?.int { return "\(state) until \(HostText.localTime(until))" }
    let on = condition["on"]?.array?.compactMap { $0.int }.map { "\($0)" } ?? []
    return on.isEmpty ? state : "\(state) for \(on.joined(separator: ", "))"
  }
}
