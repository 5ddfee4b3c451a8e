import Foundation
import Perdure
import PerdureTestKit
import Synchronization
import Testing

/// What a harness does with an environment (EN-1 to EN-3).
@Suite(.timeLimit(.minutes(5))) struct EnvironmentTests {
  private struct Refusal: Error, CustomStringConvertible {
    var description: String { "nothing is there" }
  }

  /// Collects what is told.
  private final class Notes: Sendable {
    private let notes = Mutex<[String]>([])
    var all: [String] { notes.withLock { $0 } }
    func add(_ note: String) { notes.withLock { $0.append(note) } }
  }

  private static func folder() throws -> String {
    let url = FileManager.default.temporaryDirectory.appending(path: "env-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    return url.path
  }

  /// A model that calls a tool once and then says what it was told.
  private static let model = ScriptedModel { request in
    ScriptedModel.turn(of: request) == 0
      ? ScriptedModel.calls(("c1", "look", [:])) : ScriptedModel.text("done")
  }

  private static func look(_ notes: Notes) -> Tool {
    Tool(name: "look", description: "Looks.", parameters: ["type": "object"]) { call in
      notes.add("tool \(call.env?.cwd ?? "none")")
      return .text("seen")
    }
  }

  /// Runs one prompt and returns the text of the result.
  private func run(
    _ environment: EnvironmentChoice?,
    _ extensions: [Extension],
    cwd: String? = nil,
    onReport: @escaping @Sendable (Report) -> Void = { _ in }
  ) async throws -> String {
    let harness = try await Harness.open(
      .memory,
      models: Self.model,
      extensions: extensions,
      environment: environment,
      onReport: onReport
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference, cwd: cwd))
    _ = try await root.submit("go").wait()
    let entry = try await root.view().entries.last { $0.kind == "pi.tool-result" }
    try await harness.close()
    return entry?.model?.first?["content"]?.compactText ?? ""
  }

  @Test func `tools, sections and hooks get the environment of the conversation`() async throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let notes = Notes()
    let section = PromptSection("files") { input in
      notes.add("section \(input.env?.cwd ?? "none")")
      return "text"
    }
    let hook = Hook.beforeTool(role: .observer, changes: false) { _, context in
      notes.add("hook \(try await context.environment()?.cwd ?? "none")")
      return .proceed
    }
    let value = Extension(name: "x", tools: [Self.look(notes)], sections: [section], hooks: [hook])
    _ = try await run(.directory(at: folder), [value], cwd: "sub/x")
    #expect(Set(notes.all) == ["tool /sub/x", "section /sub/x", "hook /sub/x"])
  }

  @Test func `without an environment there is none`() async throws {
    let notes = Notes()
    _ = try await run(nil, [Extension(name: "x", tools: [Self.look(notes)])])
    #expect(notes.all == ["tool none"])
  }

  @Test func `each conversation can have its own, or none`() async throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let notes = Notes()
    let choice = EnvironmentChoice.perConversation { target in
      notes.add("asked for \(target.conversationId) \(target.cwd ?? "none")")
      return target.cwd == nil ? nil : try Environments.directory(at: folder, cwd: target.cwd)
    }
    _ = try await run(choice, [Extension(name: "x", tools: [Self.look(notes)])])
    #expect(notes.all.last == "tool none")
    _ = try await run(choice, [Extension(name: "x", tools: [Self.look(notes)])], cwd: "/")
    #expect(notes.all.last == "tool /")
    #expect(notes.all.contains("asked for 1 /"))
  }

  @Test func `a tool fails where the environment cannot be made, a section does without`()
    async throws
  {
    let notes = Notes()
    let reports = Notes()
    let section = PromptSection("files") { input in
      notes.add("section \(input.env?.cwd ?? "none")")
      return "text"
    }
    let text = try await run(
      .perConversation { _ in throw Refusal() },
      [Extension(name: "x", tools: [Self.look(notes)], sections: [section])],
      onReport: { reports.add("\($0.type): \($0.message)") }
    )
    #expect(text.contains("nothing is there"))
    #expect(Set(notes.all) == ["section none"])
    #expect(reports.all.contains("host_error: no environment for sections: nothing is there"))
  }

  @Test func `a folder that is missing is told of before the store is opened`() async throws {
    let error = await #expect(throws: PerdureError.self) {
      try await Harness.open(
        .memory,
        models: Self.model,
        environment: .directory(at: "/no/such/folder")
      )
    }
    #expect(error?.code == .file)
  }

  @Test func `a task gets the environment, too`() async throws {
    struct Position: TaskCheckpoint {
      var phase = "go"
    }
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let writer = TaskType<String, Position, String>(
      "app.writer",
      initial: { _ in Position() },
      phases: [
        Phase("go") { run in
          try await run.environment()?.writeFile("note", run.input)
          try await run.commit { _ in .completed("written") }
        }
      ]
    )
    let harness = try await Harness.open(
      .memory,
      models: Self.model,
      extensions: [Extension(name: "x", tasks: [writer])],
      environment: .directory(at: folder)
    )
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(writer, "hello") }
    _ = try await harness.waitForTask(id)
    try await harness.close()
    #expect(try String(contentsOfFile: "\(folder)/note", encoding: .utf8) == "hello")
  }
}
