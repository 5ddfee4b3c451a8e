import Perdure

/// The host under test: one store, one tool, one model.
struct BenchHost {
  static let prompt = String(repeating: "go ", count: 21)
  static let payload = String(repeating: "x", count: 100)

  let harness: Harness
  let conversation: Conversation
  let path: String

  /// Opens the store of a workload and its root conversation.
  static func open(
    _ arguments: Arguments,
    _ model: BenchModel,
    replay: ReplayPolicy = .safe,
    execute: @escaping Tool.Execute = { _ in .text(payload) }
  ) async throws -> BenchHost {
    let path = arguments.folder + "/perdure.db"
    let tool = Tool(
      name: "noop",
      description: "no-op",
      parameters: [
        "type": "object", "properties": ["i": ["type": "integer"]], "required": ["i"],
      ],
      replay: replay,
      execute: execute
    )
    let harness = try await Harness.open(
      .sqliteFile(at: path, durability: arguments.sync == "full" ? .full : .normal),
      models: model,
      extensions: [Extension(name: "bench", tools: [tool])]
    )
    let conversation = try await harness.root()
    return BenchHost(harness: harness, conversation: conversation, path: path)
  }

  /// Chooses model and tool, unless the store has them from an earlier process.
  func configure() async throws {
    try await conversation.configure(
      Conversation.AgentChange(model: BenchModel.reference, extensions: ["bench"])
    )
  }

  /// Submits the prompt and returns when it is answered.
  func ask() async throws {
    let record = try await conversation.submit(Self.prompt).wait()
    guard record.status == .done else {
      throw PerdureError(
        .invalidInput,
        "the prompt was not answered",
        cause: record.json.compactText
      )
    }
  }
}
