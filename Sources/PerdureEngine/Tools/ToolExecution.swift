import PerdureModel
import PerdureValue
import Synchronization

/// Runs a tool under its deadline and returns as soon as something has been decided about it.
struct ToolExecution {
  /// How a call ended.
  enum End: Sendable {
    case returned(ToolResult)
    case threw(String)
    /// It answered neither its deadline nor its cancellation within its grace; it may still run.
    case abandoned
  }

  let runtime: TaskRuntime
  let tool: Tool
  let running: RunningCall

  /// Calls the tool; never waits longer than deadline and grace together.
  func run(_ call: ToolCall) async -> (end: End, durationMs: Int64) {
    let clock = runtime.surroundings.clock
    let started = clock.monotonic()
    let end = OneShot<End>()
    let work = Task.detached { [tool, runtime] in
      let result: End
      do {
        result = .returned(try await tool.execute(call))
      } catch {
        result = .threw((error as? PerdureError)?.description ?? "\(error)")
      }
      if !end.fill(result) {
        runtime.report("the tool '\(tool.name)' answered after its call had been given up")
      }
    }
    let timers = CallTimers()
    timers.start { [tool, running] in
      await clock.sleep(nanoseconds: tool.deadline.nanoseconds)
      if Task.isCancelled { return }
      running.cancel(.deadline)
      work.cancel()
      await clock.sleep(nanoseconds: tool.grace.nanoseconds)
      if !Task.isCancelled { end.fill(.abandoned) }
    }
    let outcome = await withTaskCancellationHandler {
      await end.value()
    } onCancel: { [tool, runtime, running] in
      running.cancel(runtime.signal.reason ?? .abort)
      work.cancel()
      timers.start {
        await clock.sleep(nanoseconds: tool.grace.nanoseconds)
        if !Task.isCancelled { end.fill(.abandoned) }
      }
    }
    timers.stop()
    return (outcome, max(0, (clock.monotonic() - started) / 1_000_000))
  }
}

/// The timers of one call, which end with it.
final class CallTimers: Sendable {
  private struct State {
    var tasks: [Task<Void, Never>] = []
    var isStopped = false
  }

  private let state = Mutex(State())

  func start(_ body: @escaping @Sendable () async -> Void) {
    state.withLock { state in
      if !state.isStopped { state.tasks.append(Task.detached { await body() }) }
    }
  }

  func stop() {
    let tasks = state.withLock { state in
      defer { state.tasks = [] }
      state.isStopped = true
      return state.tasks
    }
    for task in tasks { task.cancel() }
  }
}
