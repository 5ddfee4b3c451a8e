import PerdureModel
import PerdureValue
import Synchronization

/// Runs a tool under its deadline and returns as soon as something has been decided about it.
struct ToolExecution {
  /// How a call ended.
  enum End: Sendable {
    case returned(ToolResult)
    case threw(String, code: String)
    /// The process that ran it is gone; the record of the call decides, as after a crash.
    case cutOff(PerdureError)
    /// It answered neither its deadline nor its cancellation within its grace; it may still run.
    case abandoned
  }

  let runtime: TaskRuntime
  let tool: Tool
  let running: RunningCall
  /// Its place beside other calls, which it keeps until the tool's code has returned.
  let pass: LanePass

  /// Calls the tool; never waits longer than deadline and grace together.
  func run(_ call: ToolCall) async -> (end: End, durationMs: Int64) {
    let clock = runtime.surroundings.clock
    let started = Mutex(clock.monotonic())
    let end = OneShot<End>()
    running.onGivingUp { end.fill(.abandoned) }
    let work = Task.detached { [tool, runtime, pass] in
      let result: End
      do {
        var call = call
        call.env = try await runtime.environment()
        started.withLock { $0 = clock.monotonic() }
        result = .returned(try await tool.execute(call))
      } catch let error as PerdureError where error.code == .pluginFault {
        result = .cutOff(error)
      } catch {
        let code = (error as? PerdureError)?.code.rawValue
        result = .threw(Failure.describe(error), code: code ?? "tool_error")
      }
      // Before the call is answered: the next one may be made as soon as this one is over.
      pass.leave()
      if !end.fill(result) {
        runtime.report(
          "the tool '\(tool.name)' answered after its call had been given up; let it end when it is"
            + " cancelled, or give it a longer deadline or grace"
        )
      }
    }
    let timers = CallTimers()
    let deadline = CallClock(clock, budget: tool.deadline.nanoseconds) { [tool, running] in
      running.cancel(.deadline)
      work.cancel()
      timers.start {
        await clock.sleep(nanoseconds: tool.grace.nanoseconds)
        if !Task.isCancelled { end.fill(.abandoned) }
      }
    }
    running.scope.adopt(deadline)
    deadline.start()
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
    deadline.stop()
    // It refers to the call, which would live for ever otherwise, and all that it was made with.
    running.scope.drop(deadline)
    timers.stop()
    if case .abandoned = outcome { pass.abandon() }
    return (outcome, max(0, (clock.monotonic() - started.withLock { $0 }) / 1_000_000))
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
