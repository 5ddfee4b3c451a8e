import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

/// The provider against a server on loopback.
@Suite struct OpenAIProviderTests {
  private static let key = "sk-very-secret-0123456789"
  private static let chunks = [
    #"{"choices":[{"delta":{"role":"assistant","content":"Hel"}}]}"#,
    #"{"choices":[{"delta":{"content":"lo 🙂"}}]}"#,
    #"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    #"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#,
    "[DONE]",
  ]
  private static let events = chunks.map { "data: \($0)\n\n" }

  private static func provider(
    _ server: MockServer,
    clock: TurnedClock = TurnedClock(),
    environment: [String: String] = ["TEST_KEY": key]
  ) throws -> OpenAIProvider {
    try OpenAIProvider(
      baseURL: server.baseURL,
      apiKeyVariable: "TEST_KEY",
      environment: environment,
      clock: clock
    )
  }

  private static let hello: [JSON] = [
    ["role": "system", "content": "", "sections": ["s": "Be brief."]],
    ["role": "user", "content": "Say hello."],
  ]

  private static func answer(
    _ server: MockServer,
    clock: TurnedClock = TurnedClock()
  ) async throws
    -> Answer
  {
    await Answer(reading: try provider(server, clock: clock).stream(ModelRequest(hello)))
  }

  // MARK: Answers

  struct Form: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var answer: MockAnswer
  }

  static let forms: [Form] = {
    var forms = [
      Form(testDescription: "one event per piece", answer: MockAnswer(events)),
      Form(testDescription: "all in one piece", answer: MockAnswer([events.joined()])),
      Form(
        testDescription: "single bytes",
        answer: MockAnswer(events.joined().utf8.map { _ in "" })
      ),
      Form(
        testDescription: "CRLF",
        answer: MockAnswer(chunks.map { "data: \($0)\r\n\r\n" })
      ),
      Form(
        testDescription: "keep-alive comments",
        answer: MockAnswer(events.map { ": PROCESSING\n\n\($0)" })
      ),
      Form(testDescription: "no DONE", answer: MockAnswer(Array(events.dropLast()))),
      Form(
        testDescription: "no final blank line",
        answer: MockAnswer([events.joined().trimmingFinalLines])
      ),
      Form(testDescription: "wrong content type", answer: MockAnswer(events)),
      Form(testDescription: "gzip", answer: MockAnswer(events)),
      Form(
        testDescription: "cut behind the finish reason",
        answer: MockAnswer(Array(events.dropLast()), ending: .cut)
      ),
      Form(testDescription: "open behind DONE", answer: MockAnswer(events, ending: .stall)),
    ]
    forms[2].answer.pieces = events.joined().utf8.map { [$0] }
    forms[7].answer.fields = [("Content-Type", "text/plain")]
    forms[8].answer.fields.append(("Content-Encoding", "gzip"))
    forms[8].answer.pieces = [StoredGzip.member(Array(events.joined().utf8))]
    return forms
  }()

  @Test(arguments: forms)
  func `an answer arrives in any form`(form: Form) async throws {
    let answer = try await Self.answer(MockServer(form.answer))
    #expect(answer.blocks == ["text:Hello 🙂"])
    #expect(answer.stopReason == .stop && answer.usage?.totalTokens == 7)
  }

  @Test func `a server that does not stream is understood`() async throws {
    let whole = """
      {"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},\
      "finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}
      """
    var reply = MockAnswer(["\n\n", whole])
    reply.fields = [("Content-Type", "application/json")]
    let answer = try await Self.answer(MockServer(reply))
    #expect(answer.blocks == ["text:Hello"] && answer.usage?.totalTokens == 7)
  }

  @Test func `the request carries the key and the conversation`() async throws {
    let server = try MockServer(MockAnswer(Self.events))
    _ = try await Self.answer(server)
    let request = try #require(server.requests.first)
    #expect(request.target == "/v1/chat/completions")
    #expect(request["authorization"] == "Bearer \(Self.key)")
    #expect(request.json["messages"]?.array?.count == 2)
  }

  @Test func `one connection serves one request after the other`() async throws {
    let server = try MockServer(MockAnswer(Self.events))
    let provider = try Self.provider(server)
    for _ in 0..<20 {
      let answer = await Answer(reading: provider.stream(ModelRequest(Self.hello)))
      #expect(answer.stopReason == .stop)
    }
    // One that nobody used for two minutes is not kept, and a busy machine may pause that long.
    #expect(server.requests.count == 20 && server.connections < 5)
  }

  @Test func `answers arrive side by side`() async throws {
    let server = try MockServer(MockAnswer(Self.events))
    let provider = try Self.provider(server)
    let good = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<20 {
        group.addTask {
          await Answer(reading: provider.stream(ModelRequest(Self.hello))).blocks
            == ["text:Hello 🙂"]
        }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(good == 20)
  }

  @Test(arguments: [false, true])
  func `a reader that lags loses nothing and gets it in portions`(isGzip: Bool) async throws {
    let text = String(repeating: "x", count: 100)
    let delta = #"data: {"choices":[{"delta":{"content":"\#(text)"}}]}"#
    let piece = String(repeating: "\(delta)\n\n", count: 1000)
    var reply = MockAnswer(Array(repeating: piece, count: 20) + Self.events)
    if isGzip {
      reply.fields.append(("Content-Encoding", "gzip"))
      reply.pieces = [StoredGzip.member(Array(reply.pieces.joined()))]
    }
    let server = try MockServer(reply)
    let stream = try Self.provider(server).stream(ModelRequest(Self.hello))
    var answer = Answer([])
    var largestBatch = 0
    while true {
      // Lets the transfer run into its limit between two reads.
      for _ in 0..<200 { await Task.yield() }
      let batch = await stream.next()
      if batch.isEmpty { break }
      answer.events += batch
      largestBatch = max(largestBatch, batch.count)
    }
    #expect(answer.blocks.first?.utf8.count == 20 * 1000 * 100 + "text:Hello 🙂".utf8.count)
    // 256 KiB of waiting bytes and one buffer of libcurl more are about 2,000 events.
    #expect(largestBatch < 4000)
  }

  @Test(arguments: realServers)
  func `a server of any make answers`(baseURL: String?) async throws {
    let mock = try MockServer(MockAnswer(Self.events))
    let provider = try OpenAIProvider(
      baseURL: baseURL ?? mock.baseURL,
      environment: Environment.certificates,
      clock: TurnedClock()
    )
    let answer = await Answer(reading: provider.stream(ModelRequest(Self.hello)))
    #expect(answer.failure == nil)
    #expect(answer.blocks.first?.hasPrefix("text:") == true)
    #expect((answer.usage?.output ?? 0) > 0)
  }

  /// The mock server, and a real one if its base URL stands in `PERDURE_REAL_MODEL_URL`.
  static let realServers: [String?] =
    [nil] + (Environment["PERDURE_REAL_MODEL_URL"].map { [$0] } ?? [])

  // MARK: Failures

  struct Fault: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var answer: MockAnswer
    var action: ProviderFailure.Action
    /// What the message holds.
    var message: String
    var retryAfterMs: Int64?

    init(
      _ description: String,
      _ answer: MockAnswer,
      _ action: ProviderFailure.Action,
      _ message: String,
      fields: [(name: String, value: String)] = [],
      retryAfterMs: Int64? = nil
    ) {
      testDescription = description
      self.answer = answer
      self.answer.fields += fields
      self.action = action
      self.message = message
      self.retryAfterMs = retryAfterMs
    }
  }

  private static func error(_ status: Int, _ message: String, _ code: String = "x") -> MockAnswer {
    let json: JSON = ["error": ["message": .string(message), "code": .string(code)]]
    return MockAnswer(status: status, [json.compactText])
  }

  private static let html = "<html><head><title>502 Bad Gateway</title></head></html>"

  static let faults = [
    Fault(
      "401",
      error(401, "Incorrect API key \(key)"),
      .authentication,
      "Incorrect API key [key] (the key of TEST_KEY)"
    ),
    Fault("403", error(403, "no"), .authentication, "HTTP 403: no"),
    Fault("402", error(402, "Insufficient Balance"), .quota, "HTTP 402"),
    Fault(
      "429 in seconds",
      error(429, "slow"),
      .retry,
      "HTTP 429: slow",
      fields: [("Retry-After", "2")],
      retryAfterMs: 2000
    ),
    Fault(
      "429 in a fraction",
      error(429, "slow"),
      .retry,
      "HTTP 429",
      fields: [("Retry-After", "1.5")],
      retryAfterMs: 1500
    ),
    Fault(
      "429 in milliseconds",
      error(429, "slow"),
      .retry,
      "HTTP 429",
      fields: [("retry-after-ms", "250")],
      retryAfterMs: 250
    ),
    Fault(
      "429 with a date",
      error(429, "slow"),
      .retry,
      "HTTP 429",
      fields: [("Retry-After", "Mon, 30 Nov 2026 00:00:30 GMT")],
      retryAfterMs: 30_000
    ),
    Fault(
      "429 with a date in the past",
      error(429, "slow"),
      .retry,
      "HTTP 429",
      fields: [("Retry-After", "Mon, 30 Nov 2020 00:00:30 GMT")],
      retryAfterMs: 0
    ),
    Fault(
      "429 in words",
      error(429, "Please try again in 1m2.5s."),
      .retry,
      "HTTP 429",
      retryAfterMs: 62_500
    ),
    Fault("429 without a delay", error(429, "slow"), .retry, "HTTP 429"),
    Fault(
      "429 with nonsense",
      error(429, "slow"),
      .retry,
      "HTTP 429",
      fields: [("Retry-After", "soon")]
    ),
    Fault(
      "429 about money",
      error(429, "You exceeded your current quota", "insufficient_quota"),
      .quota,
      "HTTP 429"
    ),
    Fault(
      "429 with an advertisement",
      error(429, "Please try again in 20s. Visit the billing page", "rate_limit_exceeded"),
      .retry,
      "HTTP 429",
      retryAfterMs: 20_000
    ),
    Fault(
      "400 about the context",
      error(400, "This model's maximum context length is 10 tokens"),
      .overflow,
      "HTTP 400"
    ),
    Fault("413", MockAnswer(status: 413), .overflow, "HTTP 413 without an explanation"),
    Fault("400", error(400, "bad"), .stop, "HTTP 400: bad"),
    Fault("404", error(404, "no such model", "model_not_found"), .stop, "HTTP 404: no such model"),
    Fault("408", error(408, "late"), .retry, "HTTP 408"),
    Fault("409", error(409, "conflict"), .retry, "HTTP 409"),
    Fault("500", error(500, "oops"), .retry, "HTTP 500: oops"),
    Fault(
      "500 that says no",
      error(500, "oops"),
      .stop,
      "HTTP 500",
      fields: [("x-should-retry", "false")]
    ),
    Fault("503", MockAnswer(status: 503), .retry, "HTTP 503 without an explanation"),
    Fault(
      "502 as HTML",
      MockAnswer(status: 502, [html]),
      .retry,
      #"HTTP 502: the server answered with an HTML page ("502 Bad Gateway")"#
    ),
    Fault("200 as HTML", MockAnswer([html]), .stop, "HTML page"),
    Fault(
      "a redirect",
      MockAnswer(status: 307),
      .stop,
      "redirects to https://elsewhere.test/v1",
      fields: [("Location", "https://elsewhere.test/v1")]
    ),
    Fault("200 with nothing", MockAnswer(), .retry, "empty answer"),
    Fault("200 with other text", MockAnswer(["hello\n"]), .retry, "without any event"),
    Fault("comments only", MockAnswer([": hi\n\n"]), .retry, "without any event"),
    Fault(
      "an end without terminal event",
      MockAnswer([events[0]]),
      .retry,
      "the stream ended early"
    ),
    Fault("a cut stream", MockAnswer([events[0]], ending: .cut), .retry, "the stream ended early"),
    Fault(
      "half a line",
      MockAnswer([events[0], #"data: {"choices":[{"del"#]),
      .retry,
      "inside a line of JSON"
    ),
    Fault(
      "half a line and a cut",
      MockAnswer([events[0], #"data: {"choi"#], ending: .cut),
      .retry,
      "the stream ended early"
    ),
    Fault(
      "an error in a stream",
      MockAnswer([events[0], "data: {\"error\":{\"message\":\"overloaded\",\"code\":529}}\n\n"]),
      .retry,
      "HTTP 529: overloaded"
    ),
    Fault(
      "an error named by its event",
      MockAnswer(["event: error\ndata: {\"message\":\"broken\"}\n\n"]),
      .retry,
      "broken"
    ),
    Fault(
      "an error as a document",
      MockAnswer([#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#]),
      .quota,
      "no credit"
    ),
    Fault("nothing at all", silent(.complete), .retry, "Empty reply"),
    Fault("a reset", silent(.reset), .retry, ""),
  ]

  private static func silent(_ ending: MockAnswer.Ending) -> MockAnswer {
    var answer = MockAnswer(ending: ending)
    answer.isSilent = true
    return answer
  }

  @Test(arguments: faults)
  func `a fault is classified and told`(fault: Fault) async throws {
    let failure = try await Self.answer(MockServer(fault.answer)).failure
    #expect(failure?.action == fault.action)
    #expect(failure?.message.contains(fault.message) == true, "\(failure?.message ?? "none")")
    #expect(failure?.retryAfterMs == fault.retryAfterMs)
    #expect(failure?.message.contains(Self.key) == false)
  }

  @Test func `what arrived before a failure stays`() async throws {
    let answer = try await Self.answer(MockServer(MockAnswer([Self.events[0]], ending: .cut)))
    #expect(answer.blocks == ["text:Hel"])
  }

  @Test func `a request is sent once`() async throws {
    let server = try MockServer(Self.error(500, "oops"))
    _ = try await Self.answer(server)
    #expect(server.requests.count == 1)
  }

  @Test func `a server that is not there is worth another attempt`() async throws {
    let provider = try OpenAIProvider(
      baseURL: "http://127.0.0.1:1/v1",
      environment: [:],
      clock: TurnedClock()
    )
    let failure = await Answer(reading: provider.stream(ModelRequest(Self.hello))).failure
    #expect(failure?.action == .retry && failure?.message.contains("127.0.0.1") == true)
  }

  @Test func `a missing key for a server elsewhere names its variable`() async throws {
    let provider = try OpenAIProvider(
      baseURL: "https://api.example.test/v1",
      apiKeyVariable: "SOME_KEY",
      environment: [:],
      clock: TurnedClock()
    )
    let failure = await Answer(reading: provider.stream(ModelRequest(Self.hello))).failure
    #expect(failure?.action == .authentication && failure?.message.contains("SOME_KEY") == true)
  }

  @Test func `a header with a line break is refused`() async throws {
    let server = try MockServer(MockAnswer(Self.events))
    let request = ModelRequest(
      Self.hello,
      streamOptions: ["headers": ["X-Test": "a\r\nAuthorization: b"]]
    )
    let failure = await Answer(reading: try Self.provider(server).stream(request)).failure
    #expect(failure?.action == .stop && server.requests.isEmpty)
  }

  // MARK: Limits

  @Test func `a server that says nothing is given up`() async throws {
    let clock = TurnedClock()
    let server = try MockServer(Self.silent(.stall))
    let stream = try Self.provider(server, clock: clock).stream(ModelRequest(Self.hello))
    let answer = await clock.turning(by: 10_000) { await Answer(reading: stream) }
    #expect(answer.failure == ProviderFailure(.retry, "no answer for 300 s"))
    #expect(clock.monotonic() >= 300_000_000_000)
  }

  @Test func `keep-alives do not hide a stall`() async throws {
    let clock = TurnedClock()
    let reply = MockAnswer(
      [Self.events[0]] + Array(repeating: ": alive\n\n", count: 50),
      ending: .stall
    )
    let server = try MockServer(reply)
    let stream = try Self.provider(server, clock: clock).stream(ModelRequest(Self.hello))
    var answer = Answer(await stream.next())
    answer.events += await clock.turning(by: 10_000) { await Answer(reading: stream).events }
    #expect(answer.blocks == ["text:Hel"])
    #expect(answer.failure == ProviderFailure(.retry, "no event for 120 s"))
  }

  @Test func `an answer that never ends is ended`() async throws {
    let clock = TurnedClock()
    let server = try MockServer(MockAnswer([Self.events[0]], ending: .stall))
    var limits = ProviderLimits()
    limits.totalMs = 60_000
    let provider = try OpenAIProvider(
      baseURL: server.baseURL,
      environment: [:],
      limits: limits,
      clock: clock
    )
    let stream = provider.stream(ModelRequest(Self.hello))
    let answer = await clock.turning(by: 10_000) { await Answer(reading: stream) }
    #expect(answer.failure?.message == "the answer was not complete after 60 s")
  }

  @Test func `a stall behind the finish reason is no failure`() async throws {
    let clock = TurnedClock()
    let server = try MockServer(MockAnswer(Array(Self.events.dropLast()), ending: .stall))
    let stream = try Self.provider(server, clock: clock).stream(ModelRequest(Self.hello))
    let answer = await clock.turning(by: 10_000) { await Answer(reading: stream) }
    #expect(answer.stopReason == .stop)
  }

  // MARK: Cancellation

  @Test func `cancelling the reader ends the request`() async throws {
    let server = try MockServer(MockAnswer([Self.events[0]], ending: .stall))
    let stream = try Self.provider(server).stream(ModelRequest(Self.hello))
    #expect(Answer(await stream.next()).blocks == ["text:Hel"])
    let reader = Task { await stream.next() }
    reader.cancel()
    let last = Answer(await reader.value)
    #expect(last.failure?.message == "the request was cancelled")
    #expect(await stream.next().isEmpty)
  }

  @Test func `cancelling the stream wakes its reader`() async throws {
    let server = try MockServer(MockAnswer([Self.events[0]], ending: .stall))
    let stream = try Self.provider(server).stream(ModelRequest(Self.hello))
    #expect(Answer(await stream.next()).blocks == ["text:Hel"])
    let reader = Task { await Answer(reading: stream) }
    stream.cancel()
    #expect(await reader.value.stopReason == nil)
  }
}

extension String {
  /// The text without line feeds at its end.
  fileprivate var trimmingFinalLines: String {
    var text = self
    while text.last == "\n" { text.removeLast() }
    return text
  }
}
