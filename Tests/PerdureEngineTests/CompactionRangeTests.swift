import PerdureEngine
import PerdureModel
import PerdureValue
import Testing

/// Which part of a context becomes a summary, as a function of the context alone.
@Suite struct CompactionRangeTests {
  /// A message of about so many tokens.
  enum Message: Sendable {
    case user(Int)
    case answer(Int, usage: Int64 = 0)
    /// An answer that makes a call.
    case calls(String, Int)
    case result(String, Int)
    case system(Int)

    var json: JSON {
      switch self {
      case .user(let tokens): return ["role": "user", "content": Self.text(tokens)]
      case .answer(let tokens, let usage):
        return [
          "role": "assistant", "content": [["type": "text", "text": Self.text(tokens)]],
          "usage": ["totalTokens": .int(usage)],
        ]
      case .calls(let id, let tokens):
        return [
          "role": "assistant",
          "content": [
            ["type": "text", "text": Self.text(tokens - 1)],
            ["type": "toolCall", "id": .string(id), "name": "t", "arguments": [:]],
          ],
        ]
      case .result(let id, let tokens):
        return ["role": "toolResult", "toolCallId": .string(id), "content": Self.text(tokens)]
      case .system(let tokens): return ["role": "system", "content": Self.text(tokens)]
      }
    }

    private static func text(_ tokens: Int) -> JSON {
      .string(String(repeating: "x", count: tokens * 7 / 2))
    }
  }

  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var entries: [[Message]]
    var keeps: Int64 = 100
    /// Whether the first entry is a summary.
    var hasHead = false
    /// The place of the first entry that stays.
    var cut: Int?

    init(
      _ name: String,
      _ entries: [[Message]],
      keeps: Int64 = 100,
      hasHead: Bool = false,
      cut: Int?
    ) {
      testDescription = name
      (self.entries, self.keeps, self.hasHead, self.cut) = (entries, keeps, hasHead, cut)
    }
  }

  static let cases = [
    Case(
      "the example of the specification",
      [
        [.user(10)], [.calls("a", 10)], [.result("a", 500)], [.answer(20)], [.user(10)],
        [.answer(20)],
      ],
      cut: 3
    ),
    Case(
      "too little to keep anything back",
      [[.answer(20)], [.user(10)], [.answer(20)]],
      cut: nil
    ),
    Case("nothing at all", [], cut: nil),
    Case("a single message", [[.user(500)]], cut: nil),
    Case("exactly as much as is kept", [[.user(10)], [.user(50)], [.user(50)]], cut: 1),
    Case("one token less", [[.user(10)], [.user(50)], [.user(49)]], cut: nil),
    Case("a cut on an answer", [[.user(10)], [.answer(200)]], cut: 1),
    Case(
      "a call is not parted from its result",
      [[.user(10)], [.calls("a", 10)], [.result("a", 150)], [.answer(10)]],
      cut: 3
    ),
    Case(
      "without a candidate behind the edge the newest one before it",
      [[.user(10)], [.calls("a", 10)], [.result("a", 150)]],
      cut: 1
    ),
    Case(
      "an input between a call and its result is no candidate",
      [[.user(10)], [.calls("a", 10)], [.user(150)], [.result("a", 5)], [.answer(5)]],
      cut: 4
    ),
    Case(
      "an input behind the results is one",
      [[.user(10)], [.calls("a", 10)], [.result("a", 5)], [.user(150)]],
      cut: 3
    ),
    Case(
      "a late result behind the next answer binds nothing",
      [[.user(10)], [.calls("a", 10)], [.user(150)], [.answer(5)], [.result("a", 5)]],
      cut: 2
    ),
    Case("system messages are no candidates", [[.user(10)], [.system(150)], [.user(10)]], cut: 2),
    Case("entries without messages are none", [[.user(10)], [], [.user(150)]], cut: 2),
    Case("nothing but silent entries before the cut", [[], [.user(150)]], cut: nil),
    Case(
      "the summary itself does not count as kept",
      [[.user(500)], [.user(30)], [.answer(30)]],
      hasHead: true,
      cut: nil
    ),
    Case(
      "nothing between the summary and the cut",
      [[.user(500)], [.user(150)], [.answer(5)]],
      hasHead: true,
      cut: nil
    ),
    Case(
      "what came after the summary",
      [[.user(50)], [.user(30)], [.answer(30)], [.user(150)]],
      hasHead: true,
      cut: 3
    ),
    Case("nothing is to be kept", [[.user(10)], [.answer(10)]], keeps: 0, cut: 1),
  ]

  private static func view(_ entries: [[Message]], hasHead: Bool) throws -> ContextView {
    var records: [EntryRecord] = []
    for (place, messages) in entries.enumerated() {
      // The summary is the newest entry by id and the first one of the context.
      let id = hasHead && place == 0 ? Int64(entries.count + 2) : Int64(place + 2)
      records.append(
        EntryRecord(
          id: try #require(EntryID(id)),
          conversationId: .root,
          kind: hasHead && place == 0 ? "pi.compaction" : "pi.user",
          model: messages.map(\.json),
          head: hasHead && place == 0 ? EntryID(3) : nil
        )
      )
    }
    return ContextView(of: records.sorted { $0.id < $1.id })
  }

  @Test(arguments: cases)
  func `a cut keeps the newest messages and parts no call from its result`(_ test: Case) throws {
    let view = try Self.view(test.entries, hasHead: test.hasHead)
    let range = CompactionRange(of: view, keepRecentTokens: test.keeps)
    #expect(range?.cut == test.cut)
  }

  @Test func `a summary is made of results behind their calls`() throws {
    let view = try Self.view(
      [[.user(10)], [.calls("a", 10)], [.user(10)], [.result("a", 5)], [.answer(150)]],
      hasHead: false
    )
    let range = try #require(CompactionRange(of: view, keepRecentTokens: 100))
    let roles = range.messages(of: view).compactMap { $0["role"]?.text }
    #expect(roles == ["user", "assistant", "toolResult", "user"])
  }

  // MARK: Estimates

  static let estimates: [(JSON, Int64)] = [
    (["role": "user", "content": "1234567"], 2), (["role": "user", "content": "12345678"], 3),
    (["role": "user", "content": ""], 0), (["role": "user", "content": "😀"], 1),
    (["role": "user", "content": [["type": "image", "data": "AA"]]], 1_372),
    (
      [
        "role": "assistant",
        "content": [
          ["type": "thinking", "thinking": "1234"], ["type": "text", "text": "123"],
          ["type": "toolCall", "id": "x", "name": "ab", "arguments": ["k": 1]],
        ],
      ], 5
    ),
    (
      [
        "role": "system", "content": "1234", "sections": ["a": "567"],
        "toolsAdded": [["name": "abc"]],
      ], 7
    ), (["role": "toolResult", "content": [["type": "text", "text": "1234567"]]], 2),
  ]

  @Test(arguments: estimates)
  func `a message counts a token for every three and a half characters`(
    _ message: JSON,
    _ tokens: Int64
  ) { #expect(TokenEstimate.tokens(of: message) == tokens) }

  static let totals: [(String, [[Message]], Bool, Int64)] = [
    ("everything is estimated", [[.user(10)], [.answer(20)]], false, 30),
    (
      "the newest count and what came later", [[.user(10)], [.answer(20, usage: 7)], [.user(5)]],
      false, 12
    ),
    ("only the newest count", [[.answer(1, usage: 900)], [.answer(1, usage: 50)]], false, 50),
    ("a count of nothing is none", [[.answer(20, usage: 0)], [.user(5)]], false, 25),
    (
      "a count before the summary is none", [[.user(40)], [.user(1)], [.answer(20, usage: 900)]],
      true, 61
    ),
  ]

  @Test(arguments: totals)
  func `a context is as long as it was measured, and estimates of what came later`(
    _ name: String,
    _ entries: [[Message]],
    _ hasHead: Bool,
    _ tokens: Int64
  ) throws { #expect(try Self.view(entries, hasHead: hasHead).estimatedTokens == tokens) }

  // MARK: Thresholds

  struct Threshold: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var tokens: Int
    var planned = 0
    var window: Int64 = 1_000
    var change: @Sendable (inout CompactionPolicy) -> Void = { _ in }
    var need: CompactionNeed?
  }

  static let thresholds = [
    Threshold(testDescription: "far below", tokens: 400, need: nil),
    Threshold(testDescription: "at the background limit", tokens: 600, need: nil),
    Threshold(testDescription: "above it", tokens: 602, need: .background),
    Threshold(testDescription: "at the limit", tokens: 800, need: .background),
    Threshold(testDescription: "above it too", tokens: 802, need: .blocking),
    Threshold(testDescription: "with what is planned", tokens: 790, planned: 20, need: .blocking),
    Threshold(testDescription: "no background", tokens: 700, change: { $0.backgroundTokens = 0 }),
    Threshold(testDescription: "switched off", tokens: 900, change: { $0.isEnabled = false }),
    Threshold(testDescription: "an unknown window", tokens: 900, window: 0),
    Threshold(testDescription: "no cut", tokens: 900, change: { $0.keepRecentTokens = 790 }),
    Threshold(
      testDescription: "a small window with the default policy",
      tokens: 900,
      change: { $0 = CompactionPolicy() },
      need: .blocking
    ),
  ]

  @Test(arguments: thresholds)
  func `a context near the limit asks for a summary`(_ test: Threshold) throws {
    var policy = CompactionPolicy()
    policy.reserveTokens = 200
    policy.keepRecentTokens = 50
    policy.backgroundTokens = 200
    test.change(&policy)
    let view = try Self.view([[.user(test.tokens - 300)], [.user(300)]], hasHead: false)
    let need = CompactionNeed.of(
      contributions: view.contributions,
      weights: view.weights,
      head: view.head,
      planned: [Message.system(test.planned).json],
      window: test.window,
      policy: policy
    )
    #expect(need == test.need)
  }

  static let growth: [(new: Int, need: CompactionNeed?)] = [
    (39, nil), (40, .blocking), (300, .blocking),
  ]

  @Test(arguments: growth)
  func `after a summary the next one replaces at least as much as that one holds`(
    _ new: Int,
    _ need: CompactionNeed?
  ) throws {
    var policy = CompactionPolicy()
    (policy.reserveTokens, policy.keepRecentTokens) = (900, 50)
    let view = try Self.view([[.user(40)], [.user(new)], [.answer(200)]], hasHead: true)
    let found = CompactionNeed.of(
      contributions: view.contributions,
      weights: view.weights,
      head: view.head,
      planned: [],
      window: 1_000,
      policy: policy
    )
    #expect(found == need)
  }

  @Test func `the choices for a model go before those for all`() {
    var settings = CompactionSettings()
    var override = CompactionSettings.Override()
    override.keepRecentTokens = 7
    override.isEnabled = false
    let model = ModelReference(provider: "p", modelId: "m")
    settings.modelOverrides[model] = override
    let policy = settings.policy(for: model)
    #expect(policy.keepRecentTokens == 7 && !policy.isEnabled && policy.reserveTokens == 16_384)
    #expect(settings.policy(for: ModelReference(provider: "p", modelId: "n")) == CompactionPolicy())
  }

  static let windows: [(window: Int64, reserve: Int64, keep: Int64)] = [
    (0, 16_384, 20_000), (128_000, 16_384, 20_000), (36_385, 16_384, 20_000),
    (36_384, 9_096, 9_096), (8_192, 2_048, 2_048), (1, 1, 1),
  ]

  @Test(arguments: windows)
  func `a window that is too small for the policy is shared in quarters`(
    _ window: Int64,
    _ reserve: Int64,
    _ keep: Int64
  ) {
    let policy = CompactionPolicy().fitted(to: window)
    #expect(policy.reserveTokens == reserve && policy.keepRecentTokens == keep)
  }
}
