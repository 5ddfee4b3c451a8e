// A plugin in Swift with one of each kind: it keeps notes and shows them to the model.
import PerdurePluginKit

@main struct Notes: Plugin {
  private static let list = "example.notes-swift.list"

  var contributions: [Contribution] {
    [
      .tool("note", Self.note), .task(Self.keep), .section("notes", Self.notes),
      .hook(.beforeTool, Self.guard), .wrap(tool: "note", Self.trim),
    ]
  }

  struct Note: Codable { var text: String }
  struct Position: TaskCheckpoint { var phase: String }
  struct Kept: Codable { var notes: Int }

  /// A task of two phases, each of which ends with a commit that says what is next.
  private static let keep = TaskType<Note, Position, Kept>(
    "example.notes-swift.keep",
    phases: [
      Phase("wait") { run in
        try await run.sleep(until: run.now() + 50, at: Position(phase: "write"))
      },
      Phase("write") { run in
        try await run.commit { tx in
          let count = try await tx.update(list) { document in
            var notes = document["notes"]?.array ?? []
            notes.append(.string(run.input.text))
            document = ["notes": .array(notes)]
            return notes.count
          }
          return .completed(Kept(notes: count))
        }
      },
    ]
  )

  /// A tool: says what it does, begins a task that keeps the note, and waits for it.
  private static func note(_ call: ToolCall) async throws -> ToolResult {
    guard let text = call.arguments["text"]?.text else { throw PluginError("text is missing") }
    try await call.output("keeping the note\n")
    // The same after a crash, because the task remembers it.
    let begun = try await call.memo("begun", call.now())
    let task = try await call.commit { tx -> RecordReference in
      // A call that runs again after a crash finds what it had begun.
      if let id = try await tx.ownedTasks(of: keep).first?["id"]?.int { return .id(id) }
      return try tx.createTask(keep, Note(text: text))
    }.id
    try await call.details(["task": .int(task)])

    guard let kept = try keep.result(of: await call.waitForTask(task)) else {
      throw PluginError("the note was not kept")
    }
    var result = ToolResult.text("note \(kept.notes) is kept")
    result.details = ["task": .int(task), "begun": .int(begun)]
    return result
  }

  /// A section of the prompt, left out while there are no notes.
  private static func notes(_ call: SectionCall) async throws -> String? {
    guard let document: JSON = try await call.document(list) else { return nil }
    let notes = document["notes"]?.array ?? []
    return (["Notes so far:"] + notes.map { "- \($0.text ?? "")" }).joined(separator: "\n")
  }

  /// A guard: refuses secrets, and has somebody asked about what is private.
  private static func `guard`(_ call: HookCall) async throws -> HookDecision {
    let text = call.arguments["text"]?.text ?? ""
    if text.contains("secret") { return .deny("secrets do not belong into notes") }
    if text.contains("private") {
      return .ask(ApprovalQuestion(key: "private", title: "Keep a private note?"))
    }
    return .proceed
  }

  /// A wrap: cuts blanks off the argument, and says so.
  private static func trim(_ call: ToolWrapCall) async throws -> ToolResult {
    let text = call.arguments["text"]?.text ?? ""
    let trimmed = String(text.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    if trimmed == text { return try await call.next() }
    return try await call.next(["text": .string(trimmed)])
      .adding(ToolDiagnostic(.info, "blanks were cut off the note"))
  }
}
