import PerdureModel
import PerdureValue

/// The hooks at one point of a task, in the order in which they are called.
struct HookChain: Sendable {
  /// What a hook has to say, once its role has been taken into account.
  enum Verdict<Answer: Sendable>: Sendable {
    case answer(Answer)
    /// It failed, and its failure is a denial for this reason.
    case deny(String)
    /// It failed, which has been reported, and things go on without it.
    case nothing
  }

  let hooks: [InstalledHook]
  private let info: AgentInfo
  private let runtime: TaskRuntime

  /// Whether it is called although the host is closing, because it will not be called again.
  private let outlivesClosing: Bool

  /// Makes the chain of a point; of hooks that ask for certain tools, those for `tool`.
  init(
    _ phase: PhaseAgent,
    _ point: Hook.Point,
    tool: JSONString? = nil,
    outlivesClosing: Bool = false
  ) async throws {
    runtime = phase.runtime
    self.outlivesClosing = outlivesClosing
    // Resolving a conversation costs more than most phases do otherwise; but one that has been
    // resolved keeps its hooks, also when nobody has any more.
    guard phase.isResolved || runtime.surroundings.registry.hasHooks else {
      hooks = []
      info = AgentInfo()
      return
    }
    let agent = try await phase.get()
    let fitting = agent.hooks.filter { installed in
      installed.hook.point == point
        && (tool.map { Self.fits(installed.hook.tools, $0.string) } ?? true)
    }
    hooks = fitting.count < 2 ? fitting : Self.ranked(fitting)
    info = hooks.isEmpty ? AgentInfo() : agent.info
  }

  /// Those who decide see what will run; those who watch see what did.
  private static func ranked(_ hooks: [InstalledHook]) -> [InstalledHook] {
    (0..<4).flatMap { rank in
      ContributionSort.sorted(hooks.filter { $0.hook.rank == rank }) {
        ContributionSort.Item(extensionName: $0.extensionName, order: $0.hook.order)
      }
    }
  }

  private static func fits(_ patterns: [String]?, _ name: String) -> Bool {
    guard let patterns else { return true }
    return patterns.contains { pattern in
      pattern.utf8.last == UInt8(ascii: "*")
        ? name.utf8.starts(with: pattern.utf8.dropLast()) : name.utf8.elementsEqual(pattern.utf8)
    }
  }

  /// Calls one hook and returns its verdict.
  ///
  /// `misuse` says what is wrong with an answer, if something is. Throws `invocationEnded` if the
  /// task was cancelled meanwhile, whatever the hook said.
  func call<Answer: Sendable>(
    _ installed: InstalledHook,
    _ body: @escaping @Sendable (any HookContext) async throws -> Answer,
    misuse: (Answer) -> String?
  ) async throws -> Verdict<Answer> {
    try checkSignal()
    let call = ContributionCall(runtime, agent: info, extensionName: installed.extensionName)
    defer { call.end() }
    let end = await TimedCall<Answer>.run(
      runtime.surroundings.clock,
      deadline: installed.hook.endsInTime ? nil : installed.hook.deadline
    ) { try await body(call) }
    try checkSignal()
    switch end {
    case .returned(let answer):
      guard let misuse = misuse(answer) else { return .answer(answer) }
      return fail(installed, misuse)
    case .threw(let message): return fail(installed, message)
    case .late: return fail(installed, "it did not answer within \(installed.hook.deadline)")
    }
  }

  private func checkSignal() throws {
    if outlivesClosing, runtime.signal.reason == .closing { return }
    try runtime.checkSignal()
  }

  private func fail<Answer>(_ installed: InstalledHook, _ message: String) -> Verdict<Answer> {
    let name = installed.extensionName
    let point = installed.hook.point.text
    runtime.surroundings.report(
      Report(
        type: "extension_error",
        message: "the \(installed.hook.role.rawValue) \(point) of \(name) failed: \(message)",
        task: runtime.taskId,
        extensionName: name
      )
    )
    let denies = installed.hook.role == .guard || installed.hook.failsClosed?() == true
    return denies ? .deny("guard \(name) failed: \(message)") : .nothing
  }

  /// What is wrong with a hook that changes or denies without being allowed to.
  static func misuse(_ hook: Hook, changes: Bool = false, denies: Bool = false) -> String? {
    if changes, !hook.changes { return "it changed something, but is not registered for changes" }
    if denies, hook.role != .guard { return "it denied something, but is no guard" }
    return nil
  }
}

extension Hook {
  /// When it is called: 0 first.
  var rank: Int {
    switch (role, changes) {
    case (.observer, true): 0
    case (.guard, true): 1
    case (.guard, false): 2
    case (.observer, false): 3
    }
  }
}

extension Hook.Point {
  /// The point as reports name it.
  var text: String {
    switch self {
    case .beforeRequest: "beforeRequest"
    case .afterResponse: "afterResponse"
    case .onYield: "onYield"
    case .afterTools: "afterTools"
    case .beforeTool: "beforeTool"
    case .afterTool: "afterTool"
    case .onAbort: "onAbort"
    case .beforeCompact: "beforeCompact"
    case .conversationCreated: "conversationCreated"
    case .named(let task, let name): "\(task)/\(name)"
    }
  }
}

/// What is wrong with values that extensions hand over.
enum HandedOver {
  /// Says what is wrong with user content: a text or a list of items.
  static func misuse(content: JSON) -> String? {
    if content.string != nil { return nil }
    guard let items = content.array, !items.isEmpty else {
      return "its content is neither a text nor a list of items"
    }
    return misuse(items: items)
  }

  static let unreadable = "it nests deeper than \(StorageWrite.depth), or an integer of it is none"

  /// Says what is wrong with what a tool or a hook gives as the result of a call.
  static func misuse(result: ToolResult) -> String? {
    let values = [result.structuredOutput, result.details, result.control.map { .object($0) }]
    guard values.allSatisfy({ $0.map(StorageWrite.takes) ?? true }) else { return unreadable }
    return result.output.flatMap(misuse(items:))
  }

  static func misuse(items: [JSON]) -> String? {
    guard items.allSatisfy(StorageWrite.takes) else { return unreadable }
    let fits = items.allSatisfy { item in
      switch item["type"]?.string {
      case "text": item["text"]?.string != nil
      case "image": item["data"]?.string != nil && item["mimeType"]?.string != nil
      default: false
      }
    }
    return fits ? nil : "an item of its content is neither a text nor an image"
  }

  static func misuse(messages: [JSON]) -> String? {
    for message in messages {
      guard message.object != nil, MessageRole(message) != .other else {
        return "one of its messages is none"
      }
    }
    return messages.isEmpty ? "it left no message" : nil
  }
}
