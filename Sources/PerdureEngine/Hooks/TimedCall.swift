import PerdureModel
import Synchronization

/// Runs code of an extension that may never end, and waits for it only so long.
enum TimedCall<Value: Sendable> {
  /// How a call ended.
  enum End: Sendable {
    case returned(Value)
    case threw(String)
    /// It did not end in time, also after it was cancelled; it may still run.
    case late
  }

  private static var graceNanoseconds: Int64 { 5_000_000_000 }

  /// Calls `body`; never waits longer than the deadline and a grace of five seconds.
  ///
  /// At the deadline, or when the calling task is cancelled, the call is cancelled; what it answers
  /// within the grace still counts. Code without a deadline ends in time by itself and runs in the
  /// calling task.
  static func run(
    _ clock: any HostClock,
    deadline: Duration?,
    _ body: @escaping @Sendable () async throws -> Value
  ) async -> End {
    guard let deadline else {
      do { return .returned(try await body()) } catch { return .threw(Failure.describe(error)) }
    }
    let end = OneShot<End>()
    // Nobody waits for it for ever: code that ignores its cancellation is left behind.
    let work = Task.detached {
      do {
        end.fill(.returned(try await body()))
      } catch {
        end.fill(.threw(Failure.describe(error)))
      }
    }
    let timers = CallTimers()
    timers.start {
      await clock.sleep(nanoseconds: deadline.nanoseconds)
      if Task.isCancelled { return }
      work.cancel()
      await clock.sleep(nanoseconds: graceNanoseconds)
      if !Task.isCancelled { end.fill(.late) }
    }
    let outcome = await withTaskCancellationHandler {
      await end.value()
    } onCancel: {
      work.cancel()
      timers.start {
        await clock.sleep(nanoseconds: graceNanoseconds)
        if !Task.isCancelled { end.fill(.late) }
      }
    }
    timers.stop()
    return outcome
  }
}
