import Perdure
import PerdureModel
import PerdureValue
import Testing

/// Perdure in a Swift program, as README.md shows it.
@Suite struct SwiftProgramTests {
  private let folder = Folder()

  private static let double = Tool(
    name: "double",
    description: "Doubles a number.",
    parameters: ["type": "object", "required": ["n"], "properties": ["n": ["type": "integer"]]],
    replay: .safe
  ) { call in .text("\((call.arguments["n"]?.int ?? 0) * 2)") }

  /// Opens a harness in memory over a script of these turns.
  private func harness(_ turns: String) async throws -> Harness {
    let script = folder.write(#"{"turns": [\#(turns)]}"#, to: "script.json")
    return try await Harness.open(
      .memory,
      models: try Models.faux(scriptAt: script),
      extensions: [Extension(name: "math", tools: [Self.double])],
      settings: {
        var settings = HarnessSettings()
        settings.maxRetries = 0
        return settings
      }
    )
  }

  /// Asks one prompt; returns how it failed.
  private func failure(_ turns: String, hasModel: Bool = true) async throws -> PerdureError? {
    let harness = try await harness(turns)
    let conversation = try await harness.root()
    if hasModel { try await conversation.configure(.init(model: Models.fauxModel)) }
    let submission = try await conversation.submit("Hi")
    let error = await #expect(throws: PerdureError.self) { try await submission.answer() }
    try await harness.close()
    return error
  }

  @Test func `an answer is one call away`() async throws {
    let harness = try await harness(
      """
      {"steps": [{"toolCall": {"id": "c", "name": "double", "arguments": {"n": 21}}}]},
      {"steps": [{"text": "It is "}, {"toolResult": "c"}]}
      """
    )
    let conversation = try await harness.root()
    try await conversation.configure(.init(model: Models.fauxModel))
    #expect(try await conversation.submit("What is twice 21?").answer() == "It is 42")
    try await harness.close()
  }

  @Test func `a prompt without an answer throws why`() async throws {
    let error = try await failure(
      #"{"steps": [{"error": {"status": 503, "message": "overloaded"}}]}"#
    )
    #expect(error?.code == .providerUnavailable)
    #expect(error?.cause?.contains("overloaded") == true)
    #expect(error?.hint == "submit it again later")
  }

  @Test func `a conversation without a model says what to do`() async throws {
    let error = try await failure(#"{"steps": [{"text": "Hello."}]}"#, hasModel: false)
    #expect(error?.code == "no_model")
    #expect(
      error?.cause
        == "the conversation has no model; choose one with Conversation.configure or --model"
    )
  }
}
