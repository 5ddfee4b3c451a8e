import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

@Suite struct FauxProviderTests {
  private static let user: JSON = ["role": "user", "content": "hi"]
  private static let assistant: JSON = ["role": "assistant", "content": []]

  private static func result(_ id: JSON, _ text: JSON) -> JSON {
    ["role": "toolResult", "toolCallId": id, "content": [["type": "text", "text": text]]]
  }

  private func provider(_ turns: String, clock: TurnedClock = TurnedClock()) throws -> FauxProvider
  {
    let script = try FauxScript(parsing: Array("{\"turns\": [\(turns)]}".utf8), name: "s.json")
    return FauxProvider(script: script, clock: clock)
  }

  private func play(
    _ turns: String,
    _ messages: [JSON] = [user],
    attempt: Int = 1
  ) async throws -> Answer {
    let request = ModelRequest(messages, provider: "faux", attempt: attempt)
    return await Answer(reading: try provider(turns).stream(request))
  }

  // MARK: Turns and attempts

  static let positions: [([JSON], String)] = [
    ([user], "one"),
    ([user, assistant], "two"),
    ([user, assistant, result("c", "r")], "two"),
    ([user, assistant, user], "one"),
    ([user, assistant, assistant], "three"),
    ([], "one"),
  ]

  @Test(arguments: positions)
  func `a turn is chosen by the answers behind the last prompt`(
    messages: [JSON],
    text: String
  ) async throws {
    let turns = ["one", "two", "three"].map { #"{"steps":[{"text":"\#($0)"}]}"# }
    let answer = try await play(turns.joined(separator: ","), messages)
    #expect(answer.blocks == ["text:\(text)"])
  }

  @Test func `running past the last turn is a failure`() async throws {
    let answer = try await play(#"{"steps":[{"text":"a"}]}"#, [Self.user, Self.assistant])
    #expect(answer.failure == ProviderFailure(.stop, "the faux script has no turn 2"))
  }

  @Test(arguments: [(1, "one"), (2, "two"), (3, "two"), (0, "one")])
  func `an attempt is chosen by its number and the last one repeats`(
    attempt: Int,
    text: String
  ) async throws {
    let attempts = ["one", "two"].map { #"{"steps":[{"text":"\#($0)"}]}"# }
    let turn = #"{"attempts":[\#(attempts.joined(separator: ","))]}"#
    #expect(try await play(turn, attempt: attempt).blocks == ["text:\(text)"])
  }

  // MARK: Steps

  @Test func `text, thinking and calls become blocks`() async throws {
    let answer = try await play(
      #"{"steps":[{"thinking":"t"},{"text":"a"},{"text":"b"},"#
        + #"{"toolCall":{"name":"f","arguments":{"x":1}}},{"toolCall":{"id":"mine","name":"g"}}]}"#
    )
    #expect(answer.blocks == ["thinking:t", "text:ab", #"f:{"x":1}"#, "g:{}"])
    #expect(answer.callIds == ["call_1_1", "mine"])
    #expect(answer.stopReason == .toolUse)
  }

  @Test func `a result of a tool is said`() async throws {
    let turn = #"{"steps":[{"text":"It says: "},{"toolResult":"c1"}]}"#
    let answer = try await play(
      "\(turn),\(turn)",
      [Self.user, Self.assistant, Self.result("c1", "42")]
    )
    #expect(answer.blocks == ["text:It says: 42"])
  }

  @Test func `a result that is missing is a failure`() async throws {
    let failure = try await play(#"{"steps":[{"toolResult":"c1"}]}"#).failure
    #expect(failure?.action == .stop && failure?.message.contains("'c1'") == true)
  }

  @Test func `broken arguments stay text`() async throws {
    let answer = try await play(#"{"steps":[{"toolCall":{"name":"f","argumentsText":"{\"a\":"}}]}"#)
    #expect(answer.blocks == [#"f:{"a":"#])
  }

  @Test func `text arrives in pieces of the size asked for`() async throws {
    let answer = try await play(#"{"chunk":2,"steps":[{"text":"abcde"}]}"#)
    let deltas = answer.events.filter { if case .delta = $0 { true } else { false } }
    #expect(deltas == [.delta(index: 0, "ab"), .delta(index: 0, "cd"), .delta(index: 0, "e")])
  }

  @Test func `usage is what the script says, and else an estimate`() async throws {
    let said = try await play(#"{"steps":[{"text":"a"}],"usage":{"input":7,"output":2}}"#)
    #expect(said.usage?.input == 7 && said.usage?.totalTokens == 9)
    let estimated = try await play(#"{"steps":[{"text":"12345678"}]}"#)
    #expect(estimated.usage?.output == 2 && (estimated.usage?.input ?? 0) > 0)
  }

  static let failures: [(String, ProviderFailure)] = [
    (
      #"{"error":{"status":429,"message":"slow","retryAfterMs":50}}"#,
      ProviderFailure(.retry, "HTTP 429: slow", retryAfterMs: 50)
    ),
    (
      #"{"error":{"status":429,"message":"no","code":"insufficient_quota"}}"#,
      ProviderFailure(.quota, "HTTP 429: no")
    ),
    (#"{"error":{"status":401,"message":"no"}}"#, ProviderFailure(.authentication, "HTTP 401: no")),
    (
      #"{"error":{"status":400,"message":"prompt is too long"}}"#,
      ProviderFailure(.overflow, "HTTP 400: prompt is too long")
    ),
    (
      #"{"error":{"status":502,"body":"<html></html>"}}"#,
      ProviderFailure(.retry, "HTTP 502: the server answered with an HTML page")
    ),
    (#"{"error":{"message":"connection reset"}}"#, ProviderFailure(.retry, "connection reset")),
    (#"{"truncate":true}"#, ProviderFailure(.retry, "the stream ended early")),
  ]

  @Test(arguments: failures)
  func `errors are classified as those of a server`(
    step: String,
    failure: ProviderFailure
  ) async throws {
    let answer = try await play(#"{"steps":[{"text":"a"},\#(step)]}"#)
    #expect(answer.failure == failure)
    #expect(answer.blocks == ["text:a"])
  }

  // MARK: Time

  @Test func `a pause follows the clock`() async throws {
    let clock = TurnedClock()
    let provider = try provider(
      #"{"steps":[{"text":"a"},{"delayMs":5000},{"text":"b"}]}"#,
      clock: clock
    )
    let stream = provider.stream(ModelRequest([Self.user], provider: "faux"))
    var answer = Answer(await stream.next())
    #expect(answer.blocks == ["text:a"])
    answer.events += await clock.turning(by: 1000) { await Answer(reading: stream).events }
    #expect(answer.blocks == ["text:ab"])
    #expect(clock.monotonic() >= 5_000_000_000)
  }

  @Test(arguments: [#"{"stall":true}"#, #"{"delayMs":3600000}"#])
  func `a stall is given up like that of a server`(step: String) async throws {
    let clock = TurnedClock()
    let provider = try provider(#"{"steps":[{"text":"a"},\#(step)]}"#, clock: clock)
    let stream = provider.stream(ModelRequest([Self.user], provider: "faux"))
    let answer = await clock.turning(by: 10_000) { await Answer(reading: stream) }
    #expect(answer.failure == ProviderFailure(.retry, "no event for 120 s"))
  }

  @Test func `cancelling a stall wakes its reader`() async throws {
    let stream = try provider(#"{"steps":[{"text":"a"},{"stall":true}]}"#)
      .stream(ModelRequest([Self.user], provider: "faux"))
    #expect(Answer(await stream.next()).blocks == ["text:a"])
    let reader = Task { await stream.next() }
    stream.cancel()
    #expect(await reader.value.isEmpty)
  }

  @Test func `twenty thousand deltas arrive in few batches`() async throws {
    let text = String(repeating: "x", count: 20_000)
    let stream = try provider(#"{"chunk":1,"steps":[{"text":"\#(text)"}]}"#)
      .stream(ModelRequest([Self.user], provider: "faux"))
    var batches = 0
    var events = 0
    while true {
      let batch = await stream.next()
      if batch.isEmpty { break }
      batches += 1
      events += batch.count
    }
    #expect(events == 20_004 && batches == 1)
  }

  @Test func `any model of the provider is served and no other`() throws {
    let provider = try provider(#"{"steps":[{"text":"a"}]}"#)
    let info = provider.model(ModelReference(provider: "faux", modelId: "any"))
    #expect(info?.contextWindow == 128_000 && info?.maxTokens == 16_384 && info?.api == "faux")
    #expect(provider.model(ModelReference(provider: "openai", modelId: "any")) == nil)
  }
}
