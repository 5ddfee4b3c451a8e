import PerdureModel
import PerdureValue
import Synchronization

/// Runs what is inside a wrap; returns what tells the plugin of it, once it may ask again.
typealias InnerWork = @Sendable () async -> @Sendable () -> Void

/// What a wrap is put around: run when the plugin asks for `next`, one at a time.
final class InnerCall: Sendable {
  /// What it is.
  enum Body: Sendable {
    case tool(InnerTool)
    case section(SectionBody)
  }

  private struct State {
    var count = 0
    var running: Task<Void, Never>?
    var isRunning = false
    var isOver = false
  }

  static let limit = 16

  private let body: Body
  private let state = Mutex(State())

  init(_ body: Body) { self.body = body }

  /// Whether it was begun at least once.
  var wasCalled: Bool { state.withLock { $0.count > 0 } }

  /// Begins it for a request, which is answered when it has ended.
  func next(_ run: OperationRun, _ input: Arguments) throws(OperationProblem) {
    if let reason = run.call?.cancelReason {
      throw OperationProblem(.cancelled, "the call is cancelled", reason: "\(reason)")
    }
    let work = try work(run, input)
    let task = try begin(run) { [self] in
      let finish = await work()
      // The plugin may ask again as soon as it is told.
      state.withLock { $0.isRunning = false }
      finish()
    }
    // A stream goes on when the request for it has been answered.
    if input.flag("capture") != true { run.request.attach(task) }
  }

  /// Cancels what runs; the wrap is told how it ended.
  func cancel() { state.withLock { $0.running }?.cancel() }

  private func work(
    _ run: OperationRun,
    _ input: Arguments
  ) throws(OperationProblem) -> InnerWork {
    switch body {
    case .tool(let tool): return try tool.work(run, input) { [weak self] in self?.cancel() }
    case .section(let section):
      return {
        let result: RequestResult
        do {
          let text = try await section.render()
          result = .object(text.map { ["text": .string($0)] } ?? [:])
        } catch {
          result = .failed(InnerTool.failure(error))
        }
        return { run.core.answer(run.id, result) }
      }
    }
  }

  /// Begins a run if none is under way; it is ended by its request or by the end of the wrap, which
  /// waits for it.
  private func begin(
    _ run: OperationRun,
    _ body: @escaping @Sendable () async -> Void
  ) throws(OperationProblem) -> Task<Void, Never> {
    let result: Result<Task<Void, Never>, OperationProblem> = state.withLock { state in
      if let problem = Self.problem(state) { return .failure(problem) }
      let task = Task { await body() }
      state.count += 1
      state.isRunning = true
      state.running = task
      return .success(task)
    }
    if case .failure(let problem) = result, problem.reason == "limit" {
      run.core.strike("asked for next more than \(Self.limit) times in one call")
    }
    return try result.get()
  }

  private static func problem(_ state: State) -> OperationProblem? {
    if state.isOver { return OperationProblem(.stale, "the call is over", reason: "ended") }
    if state.isRunning {
      return OperationProblem(.busy, "another next of the call is running", reason: "next_running")
    }
    guard state.count >= limit else { return nil }
    return OperationProblem(.busy, "the call has asked for next \(limit) times", reason: "limit")
  }

  /// Ends it: what runs is cancelled and waited for, and nothing is begun any more.
  func end() async {
    let running = state.withLock { state in
      state.isOver = true
      return state.running
    }
    guard let running else { return }
    running.cancel()
    await running.value
    if case .tool(let tool) = body { await tool.join() }
  }

  /// Runs the tool with the arguments of the call, because the wrap is out of order.
  func tool() async throws -> ToolResult {
    guard case .tool(let tool) = body else { return ToolResult() }
    do {
      let result = try await tool.run()
      await tool.join()
      return result
    } catch {
      await tool.join()
      throw error
    }
  }

  /// Renders the section, because the wrap is out of order.
  func section() async throws -> String? {
    guard case .section(let section) = body else { return nil }
    return try await section.render()
  }
}

extension OperationSchema {
  /// What only wraps may ask for.
  static let wraps: [OperationSchema] = [
    OperationSchema(
      name: "next",
      classes: .wrap,
      pauses: true,
      members: [.takes("arguments", .object), .takes("capture", .bool)],
      body: .now { (run, input) throws(OperationProblem) in
        guard let inner = run.call?.place.inner else {
          throw OperationProblem(.invalid, "next cannot be asked for here", reason: "not_here")
        }
        try inner.next(run, input)
        return nil
      }
    )
  ]
}
