import PerdureModel
import PerdureValue

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
    let work = Task.detached { [tool] in
      do {
        end.fill(.returned(try await tool.execute(call)))
      } catch {
        end.fill(.threw((error as? PerdureError)?.description ?? "\(error)"))
      }
    }
    let watch = Task.detached { [tool, running] in
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
      // Ends by itself after the grace; filling a second time changes nothing.
      Task.detached {
        await clock.sleep(nanoseconds: tool.grace.nanoseconds)
        end.fill(.abandoned)
      }
    }
    watch.cancel()
    return (outcome, max(0, (clock.monotonic() - started) / 1_000_000))
  }
}

extension Duration {
  /// The whole nanoseconds, at most the greatest integer and at least 0.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    if overflow { return seconds > 0 ? .max : 0 }
    let (sum, isTooBig) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return isTooBig ? .max : max(0, sum)
  }
}
