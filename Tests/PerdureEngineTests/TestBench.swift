import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Opens engines in memory for tests.
struct TestBench {
  var memory = MemoryStorage()
  /// Put in front of the memory, if a test looks at calls or lets them fail.
  var front: (@Sendable (any Storage) -> any Storage)?
  var clock = ManualClock()
  var settings = Settings()
  let reports = Reports()

  func open(
    _ model: any ModelProvider,
    tools: [Tool] = [],
    extensions: [Extension] = []
  ) async throws -> Engine {
    let registry = Registry()
    try registry.install(Extension(name: "test", tools: tools))
    for value in extensions { try registry.install(value) }
    let settings = settings
    return try await Engine.open(
      front?(memory) ?? memory,
      Engine.Options(
        models: model,
        registry: registry,
        settings: { settings },
        clock: clock,
        report: { [reports] in reports.add($0) }
      )
    )
  }

  /// The bench of the next process over what lies in the store now, as after a `kill -9`.
  func afterDeath() -> TestBench {
    var next = self
    next.memory = MemoryStorage(continuing: memory)
    return next
  }

  func start(_ engine: Engine) async throws -> ConversationID {
    let root = try await engine.root()
    try await engine.configure(root, ["model": ScriptedModel.reference.json])
    return root
  }

  /// Submits, waits for the settlement and returns it.
  func ask(
    _ engine: Engine,
    _ text: String = "hi",
    in conversation: ConversationID = .root
  ) async throws -> SubmissionRecord {
    let id = try await engine.submit(.string(text), to: conversation)
    return try await engine.wait(for: id)
  }

  /// Closes an engine and checks that its store keeps every invariant.
  func end(_ engine: Engine) async throws {
    try await engine.close()
    try await checkInvariants()
  }

  func checkInvariants() async throws {
    let violations = try await StoreInvariants.violations(of: MemoryStorage(continuing: memory))
    #expect(violations == [])
  }

  static func entries(
    _ engine: Engine,
    _ conversation: ConversationID = .root
  ) async throws -> [EntryRecord] {
    try await engine.session.store.scanEntries(
      EntryQuery(conversationId: conversation),
      PageRequest(limit: 256, order: .ascending)
    ).items
  }

  /// The messages of the results of calls, in the order of their commits.
  static func results(_ engine: Engine) async throws -> [JSON] {
    try await entries(engine).filter { $0.kind == "pi.tool-result" }.compactMap { $0.model?.first }
  }

  /// All tasks of the store, as staged.
  static func tasks(_ engine: Engine) async throws -> [TaskRecord] {
    try await engine.session.store.scanTasks(.init(), PageRequest(limit: 256)).items
  }
}

extension JSON {
  /// The joined text of a message's content.
  var contentText: String {
    (self["content"]?.array ?? []).compactMap { $0["text"]?.text }.joined(separator: "|")
  }
}

/// Collects what several tasks tell.
final class Log<Element: Sendable>: Sendable {
  private let state = Mutex<[Element]>([])

  var all: [Element] { state.withLock { $0 } }

  func add(_ element: Element) { state.withLock { $0.append(element) } }
}

typealias Reports = Log<Report>

/// Something that happens once and can be waited for.
final class Event: Sendable {
  private struct State {
    var hasHappened = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  var hasHappened: Bool { state.withLock { $0.hasHappened } }

  func happen() {
    let waiting = state.withLock { state in
      state.hasHappened = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Returns when it has happened, whatever becomes of the calling task.
  func wait() async {
    await withCheckedContinuation { continuation in
      let hasHappened = state.withLock { state in
        if !state.hasHappened { state.waiting.append(continuation) }
        return state.hasHappened
      }
      if hasHappened { continuation.resume() }
    }
  }

  /// Returns when it has happened or the calling task is cancelled.
  func waitOrCancel() async {
    await withTaskCancellationHandler {
      await wait()
    } onCancel: {
      happen()
    }
  }
}

/// Follows the staged commits of a session.
final class Commits: Sendable {
  private struct State {
    var publications: [Publication] = []
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  init(_ session: Session) {
    session.observe { [weak self] publication in
      let waiting = self?.state.withLock { state in
        state.publications.append(publication)
        defer { state.waiting = [] }
        return state.waiting
      }
      for continuation in waiting ?? [] { continuation.resume() }
    }
  }

  var all: [Publication] { state.withLock { $0.publications } }

  /// Returns the first commit that fits, waiting for it if it has not come yet.
  @discardableResult
  func first(_ fits: @escaping @Sendable (Publication) -> Bool) async -> Publication {
    var seen = 0
    while true {
      let (found, count) = state.withLock { state in
        (state.publications.dropFirst(seen).first(where: fits), state.publications.count)
      }
      if let found { return found }
      seen = count
      await withCheckedContinuation { continuation in
        let isBehind = state.withLock { state in
          if state.publications.count == count { state.waiting.append(continuation) }
          return state.publications.count > count
        }
        if isBehind { continuation.resume() }
      }
    }
  }

  /// Waits until a task of this kind has this state.
  @discardableResult
  func task(
    _ kind: JSONString,
    _ fits: @escaping @Sendable (TaskRecord) -> Bool
  ) async -> TaskRecord? {
    let publication = await first { publication in
      publication.tasks.contains { $0.kind == kind && fits($0) }
    }
    return publication.tasks.first { $0.kind == kind && fits($0) }
  }
}

extension Publication {
  var tasks: [TaskRecord] {
    changes.compactMap { if case .task(let record) = $0 { record } else { nil } }
  }

  var entries: [EntryRecord] {
    changes.compactMap { if case .entry(let record) = $0 { record } else { nil } }
  }
}

/// A model whose answers a test sends piece by piece.
final class LiveModel: ModelProvider {
  private struct State {
    var streams: [Stream] = []
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == ScriptedModel.reference else { return nil }
    return ModelInfo(reference: reference, api: "live", contextWindow: 0, maxTokens: 0)
  }

  func stream(_ request: ModelRequest) -> any ModelStream {
    let stream = Stream(request)
    let waiting = state.withLock { state in
      state.streams.append(stream)
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
    return stream
  }

  /// The request of this number, from 1; waits for it.
  func request(_ number: Int) async -> Stream {
    while true {
      if let stream = state.withLock({ state in
        state.streams.count >= number ? state.streams[number - 1] : nil
      }) {
        return stream
      }
      await withCheckedContinuation { continuation in
        let isThere = state.withLock { state in
          if state.streams.count < number { state.waiting.append(continuation) }
          return state.streams.count >= number
        }
        if isThere { continuation.resume() }
      }
    }
  }

  var count: Int { state.withLock { $0.streams.count } }

  final class Stream: ModelStream {
    private struct State {
      var events: [ModelEvent] = []
      var isCancelled = false
      var waiting: CheckedContinuation<Void, Never>?
    }

    let request: ModelRequest
    private let state = Mutex(State())

    init(_ request: ModelRequest) { self.request = request }

    func send(_ events: [ModelEvent]) { change { $0.events += events } }

    func cancel() { change { $0.isCancelled = true } }

    private func change(_ body: (inout State) -> Void) {
      let waiting = state.withLock { state in
        body(&state)
        defer { state.waiting = nil }
        return state.waiting
      }
      waiting?.resume()
    }

    func next() async -> [ModelEvent] {
      await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          let mayGo = state.withLock { state in
            let mayGo = !state.events.isEmpty || state.isCancelled
            if !mayGo { state.waiting = continuation }
            return mayGo
          }
          if mayGo { continuation.resume() }
        }
      } onCancel: {
        cancel()
      }
      return state.withLock { state in
        defer { state.events = [] }
        return state.events
      }
    }
  }
}

let echo = Tool(
  name: "echo",
  description: "Says it again.",
  parameters: [
    "type": "object", "properties": ["text": ["type": "string"]], "required": ["text"],
  ]
) { call in .text(call.arguments["text"]?.text ?? "") }

/// Makes a tool without parameters.
func plainTool(
  _ name: String,
  replay: ReplayPolicy = .unsafe,
  mode: ExecutionMode? = nil,
  limits: OutputLimits = OutputLimits(),
  deadline: Duration = .seconds(600),
  grace: Duration = .seconds(5),
  _ execute: @escaping Tool.Execute
) -> Tool {
  Tool(
    name: name,
    description: "A tool of a test.",
    parameters: ["type": "object"],
    replay: replay,
    executionMode: mode,
    outputLimits: limits,
    deadline: deadline,
    grace: grace,
    execute: execute
  )
}

/// A model that makes these calls at once and answers after their results.
func calling(_ calls: (id: String, name: String, arguments: JSON)...) -> ScriptedModel {
  ScriptedModel { request in
    guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
    var events: [ModelEvent] = []
    for (index, call) in calls.enumerated() {
      let block = AnswerBlock.toolCall(id: JSONString(call.id), name: JSONString(call.name))
      events.append(.blockStart(index: index, block))
      events.append(.blockEnd(index: index, arguments: call.arguments))
    }
    return [events + [.finished(.toolUse)]]
  }
}
