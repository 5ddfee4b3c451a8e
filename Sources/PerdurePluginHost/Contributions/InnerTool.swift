import PerdureModel
import PerdureValue
import Synchronization

/// A tool inside a wrap, with the call that is being made of it.
struct InnerTool: Sendable {
  let tool: Tool
  let call: ToolCall
  let schemas: SchemaCache
  let clock: any HostClock
  /// The runs that were begun and may not have ended.
  private let runs = TaskList()

  init(_ tool: Tool, _ call: ToolCall, _ schemas: SchemaCache, _ clock: any HostClock) {
    self.tool = tool
    self.call = call
    self.schemas = schemas
    self.clock = clock
  }

  private var port: (any WrapPort)? { call.host as? any WrapPort }

  /// Prepares one run that a wrap asked for.
  func work(
    _ run: OperationRun,
    _ input: Arguments,
    cancel: @escaping @Sendable () -> Void
  ) throws(OperationProblem) -> InnerWork {
    let images = run.call?.place.images ?? ImageTable()
    var arguments = call.arguments
    do throws(BorderProblem) {
      if let given = input["arguments"] {
        arguments = try images.restored(given, at: "/arguments")
      }
    } catch {
      throw OperationProblem(error, of: "next")
    }
    let checked = try check(arguments)
    guard input.flag("capture") == true else {
      return {
        let result: RequestResult
        do {
          result = .object(ContributionMessage.result(try await execute(checked, nil), images))
        } catch {
          result = .failed(Self.failure(error))
        }
        return { run.core.answer(run.id, result) }
      }
    }
    return captured(run, checked, images, cancel)
  }

  /// Runs the tool with its output going to a stream, whose handle is the answer.
  private func captured(
    _ run: OperationRun,
    _ arguments: JSON,
    _ images: ImageTable,
    _ cancel: @escaping @Sendable () -> Void
  ) -> InnerWork {
    {
      let capture = Capture(tool.outputLimits, atClose: cancel)
      guard let handle = run.call?.streams.open(capture) else {
        let problem = OperationProblem(.busy, "the call has too many streams", reason: "limit")
        return { run.core.answer(run.id, .failed(problem)) }
      }
      run.core.answer(run.id, .object(["stream": .string(handle)]))
      do {
        var result = try await execute(arguments, capture)
        if result.output == nil {
          result.output =
            capture.text.isEmpty ? [] : [["type": "text", "text": .string(capture.text)]]
        }
        let end = JSON.object(ContributionMessage.result(result, images))
        return { capture.finish(end) }
      } catch {
        let end: JSON = ["error": Self.failure(error).json]
        return { capture.finish(end) }
      }
    }
  }

  /// Runs the tool as if there were no wrap.
  func run() async throws -> ToolResult {
    try await execute(try check(call.arguments), nil)
  }

  private func check(_ arguments: JSON) throws(OperationProblem) -> JSON {
    guard let schema = schemas.schema(of: tool.parameters) else { return arguments }
    let coerced = schema.coerce(arguments)
    let violations = schema.validate(coerced)
    guard let first = violations.first else { return coerced }
    throw OperationProblem(
      .invalid,
      "the arguments of tool \(tool.name) are invalid: \(first)",
      reason: "invalid_arguments",
      at: "/arguments\(first.path)"
    )
  }

  /// What a plugin is told of a tool that threw.
  static func failure(_ error: any Error) -> OperationProblem {
    OperationProblem(
      .internal,
      (error as? PerdureError)?.description ?? "\(error)",
      reason: "tool_error"
    )
  }

  // MARK: Running

  /// Makes one call of the tool and waits for it no longer than its deadline and its grace.
  func execute(_ arguments: JSON, _ capture: Capture?) async throws -> ToolResult {
    let host = InnerHost(call.host, capture)
    var inner = call
    inner.arguments = arguments
    inner.host = host
    let (deadline, overflow) = clock.monotonic()
      .addingReportingOverflow(tool.deadline.wholeNanoseconds)
    inner.deadline = overflow ? .max : deadline
    let end = OneShot<Result<ToolResult, any Error>>()
    let made = inner
    // Waited for by `join`; nobody else waits for code that ignores its cancellation.
    let work = Task {
      do { end.fire(.success(try await tool.execute(made))) } catch { end.fire(.failure(error)) }
    }
    runs.add(work)
    let stop = watch(host, work, end)
    defer { stop() }
    return try await withTaskCancellationHandler {
      try await end.value().get()
    } onCancel: {
      host.cancel(.parent)
      work.cancel()
    }
  }

  private func watch(
    _ host: InnerHost,
    _ work: Task<Void, Never>,
    _ end: OneShot<Result<ToolResult, any Error>>
  ) -> @Sendable () -> Void {
    let late = Result<ToolResult, any Error>.failure(
      PerdureError("interrupted", "tool \(tool.name) did not end in time; it may still be running")
    )
    let grace = tool.grace.wholeNanoseconds
    let atEnd: @Sendable () async -> Void = { [clock] in
      host.cancel(.deadline)
      work.cancel()
      await clock.sleep(nanoseconds: grace)
      if !Task.isCancelled { end.fire(late) }
    }
    let deadline = tool.deadline.wholeNanoseconds
    if let port { return port.deadline(nanoseconds: deadline, atEnd) }
    let timer = Task { [clock] in
      await clock.sleep(nanoseconds: deadline)
      if !Task.isCancelled { await atEnd() }
    }
    return { timer.cancel() }
  }

  /// Waits for all runs; a call whose tool does not end is given up meanwhile.
  func join() async {
    let tasks = runs.all
    guard !tasks.isEmpty else { return }
    let timer = Task { [clock, port, tool] in
      await clock.sleep(nanoseconds: tool.grace.wholeNanoseconds)
      if !Task.isCancelled { port?.giveUp() }
    }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
    timer.cancel()
  }
}

/// Tasks that somebody will wait for.
private final class TaskList: Sendable {
  private let tasks = Mutex<[Task<Void, Never>]>([])

  func add(_ task: Task<Void, Never>) { tasks.withLock { $0.append(task) } }
  var all: [Task<Void, Never>] { tasks.withLock { $0 } }
}

/// Compiled schemas of parameters, kept because compiling costs more than a call.
final class SchemaCache: Sendable {
  private struct State {
    var document: JSON?
    var schema: JSONSchema?
  }

  private let state = Mutex(State())

  /// The schema of a document, or `nil` if it cannot be compiled, which the registry refuses.
  func schema(of document: JSON) -> JSONSchema? {
    if let known = state.withLock({ $0.document == document ? $0.schema : nil }) { return known }
    let schema = try? JSONSchema(compiling: document)
    state.withLock { $0 = State(document: document, schema: schema) }
    return schema
  }
}
