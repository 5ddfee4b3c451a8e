import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

/// Summaries, deferred answers and sizes in faux scripts.
@Suite struct FauxDeferralTests {
  private static func provider(_ text: String) throws -> FauxProvider {
    FauxProvider(
      script: try FauxScript(parsing: Array(text.utf8), name: "s.json"),
      clock: TurnedClock()
    )
  }

  private static func model(_ provider: FauxProvider) throws -> ModelInfo {
    try #require(provider.model(FauxProvider.defaultModel))
  }

  private static func events(_ stream: any ModelStream) async -> [ModelEvent] {
    var all: [ModelEvent] = []
    while true {
      let events = await stream.next()
      if events.isEmpty { return all }
      all += events
    }
  }

  private static func text(_ events: [ModelEvent]) -> String {
    events.map { if case .delta(_, let text) = $0 { text } else { "" } }.joined()
  }

  private static let script = #"""
    {"turns": [{"steps": [{"text": "one"}],
                "deferred": {"pendingFetches": 1, "pollAfterMs": 7}}],
     "summary": {"attempts": [{"steps": [{"text": "short"}]}, {"steps": [{"text": "again"}]}]},
     "contextWindow": 900, "maxTokens": 80}
    """#

  @Test func `a script says how much its model takes`() throws {
    let model = try Self.model(try Self.provider(Self.script))
    #expect(model.contextWindow == 900 && model.maxTokens == 80)
  }

  @Test func `a request for a summary gets the summary of its attempt`() async throws {
    let provider = try Self.provider(Self.script)
    for (attempt, text) in [(1, "short"), (2, "again")] {
      let request = ModelRequest(
        model: try Self.model(provider),
        messages: [["role": "user", "content": "x"]],
        attempt: attempt,
        purpose: .summary
      )
      #expect(Self.text(await Self.events(provider.stream(request))) == text)
    }
  }

  @Test func `without a summary in the script the request fails`() async throws {
    let provider = try Self.provider(#"{"turns": [{"steps": [{"text": "one"}]}]}"#)
    let request = ModelRequest(
      model: try Self.model(provider),
      messages: [],
      attempt: 1,
      purpose: .summary
    )
    let events = await Self.events(provider.stream(request))
    #expect(events == [.failed(ProviderFailure(.stop, "the faux script has no summary"))])
  }

  @Test func `a deferred answer comes after as many vain fetches as the script says`() async throws
  {
    let provider = try Self.provider(Self.script)
    let model = try Self.model(provider)
    let request = ModelRequest(
      model: model,
      messages: [["role": "user", "content": "x"]],
      attempt: 1
    )
    guard case .deferred(let first)? = await Self.events(provider.stream(request)).last,
      case .deferred(let second)? = await Self.events(
        provider.fetchDeferred(first, of: model)
      ).last
    else {
      Issue.record("not deferred")
      return
    }
    #expect(first["pollAfterMs"] == 7)
    let events = await Self.events(provider.fetchDeferred(second, of: model))
    #expect(Self.text(events) == "one" && events.last == .finished(.stop))
  }

  static let strangers: [JSON] = [
    [:], ["turn": 9, "attempt": 0, "left": 0], ["turn": 1, "attempt": 5, "left": 0],
    ["turn": -1, "attempt": -1, "left": 0], "h",
  ]

  @Test(arguments: strangers)
  func `a handle that the script does not know fails`(_ handle: JSON) async throws {
    let provider = try Self.provider(Self.script)
    let events = await Self.events(
      provider.fetchDeferred(handle, of: try Self.model(provider))
    )
    guard case .failed(let failure)? = events.last else {
      Issue.record("\(events)")
      return
    }
    #expect(failure.action == .stop)
  }

  @Test func `the result of a call cannot be part of a deferred answer`() {
    #expect(throws: PerdureError.self) {
      try Self.provider(#"{"turns": [{"steps": [{"toolResult": "a"}], "deferred": {}}]}"#)
    }
  }
}
