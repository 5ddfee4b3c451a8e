// @NAME@: a plugin for Perdure. What the types do stands in @SDK_FOLDER@/PerdurePluginKit.
import PerdurePluginKit

@main struct Main: Plugin {
  var contributions: [Contribution] {
    [
//@if section
      .section("@NAME@", section),
//@end
//@if guard
      .hook(.beforeTool, `guard`),
//@end
//@if wrap
      .wrap(tool: "@NAME@", wrap),
//@end
//@if task
      .tool("@NAME@-later", greetLater),
      .task(greeting),
//@end
      .tool("@NAME@", greet),
    ]
  }
}

/// The tool: the schema in @NAME@.json has checked that name is a string.
func greet(_ call: ToolCall) async throws -> ToolResult {
  let name = call.arguments["name"]?.text ?? ""
  guard (1...255).contains(name.utf8.count) else {
    throw PluginError("the name must have from 1 to 255 bytes")
  }
  return .text("Hello, \(name)!")
}
//@if section

/// A section of the prompt: what the model is told beside its tools.
func section(_ call: SectionCall) async throws -> String? {
  "Whoever is greeted is greeted by name."
}
//@end
//@if guard

/// A guard: is asked before each call of the tool, and may say no. If it fails, the call is denied.
func `guard`(_ call: HookCall) async throws -> HookDecision {
  call.arguments["name"] == "nobody" ? .deny("nobody must not be greeted") : .proceed
}
//@end
//@if wrap

/// A wrap: runs around the tool, and may change what goes in and what comes out.
func wrap(_ call: ToolWrapCall) async throws -> ToolResult {
  if call.arguments["name"] != "world" { return try await call.next() }
  return try await call.next(["name": "World"])
}
//@end
//@if task

/// A tool that begins a durable task and waits for it. After a crash the task goes on where it was,
/// and the call, which runs again, finds it.
func greetLater(_ call: ToolCall) async throws -> ToolResult {
  let task = try await call.commit { tx -> RecordReference in
    if let id = try await tx.ownedTasks(of: greeting).first?["id"]?.int { return .id(id) }
    return try tx.createTask(greeting, Guest(name: call.arguments["name"]?.text ?? ""))
  }.id
  guard let text = try greeting.result(of: await call.waitForTask(task))?.text else {
    throw PluginError("the task was not completed")
  }
  return .text(text)
}

struct Guest: Codable { var name: String }
struct Position: TaskCheckpoint { var phase: String }
struct Greeting: Codable { var text: String }

/// The phases of the task. Each ends with a commit of what comes next; a crash repeats it from its
/// beginning. This one rests for 50 ms, and could for a month: a task that sleeps needs no process.
let greeting = TaskType<Guest, Position, Greeting>(
  "@ID@.greeting",
  phases: [
    Phase("rest") { run in
      try await run.sleep(until: run.now() + 50, at: Position(phase: "greet"))
    },
    Phase("greet") { run in
      try await run.commit { _ in
        .completed(Greeting(text: "Hello, \(run.input.name) at last!"))
      }
    },
  ]
)
//@end
