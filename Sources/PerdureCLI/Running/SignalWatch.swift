import CPerdureLinux
import Perdure
import PerdureModel
import Synchronization

/// What the first Ctrl-C does; the second one ends the process in C, whatever happens here.
enum SignalWatch {
  private static let handler = Mutex<(@Sendable (Int32) -> Void)?>(nil)
  private static let exitReporter = Mutex<Reporter?>(nil)

  /// Takes the signals over.
  static func start() throws {
    let code = perdure_signals_watch { signal in
      guard let handler = SignalWatch.handler.withLock({ $0 }) else {
        perdure_process_end(128 + signal)
      }
      handler(signal)
    }
    guard code == 0 else {
      throw PerdureError(
        "out_of_threads",
        "the system gives no thread for signals",
        hint: "raise 'ulimit -u'"
      )
    }
  }

  /// Ends with an error if a plugin calls `exit`, and says which one crashed if one does.
  ///
  /// Without it a run that a plugin cut off would end as if all were well.
  static func watchPlugins(_ reporter: Reporter) throws {
    PluginCrashes.keep()
    perdure_breadcrumb_report_crashes()
    exitReporter.withLock { $0 = reporter }
    let code = perdure_process_watch_exit {
      guard let reporter = SignalWatch.exitReporter.withLock({ $0 }) else { return }
      // A thread that a plugin made itself has no name.
      let culprit = HostText.markPlugin().map {
        "plugin \($0.plugin) ended the process in \($0.target)"
      }
      reporter.end(
        .runFailed,
        error: PerdureError(
          "plugin_fault",
          culprit ?? "a thread of a plugin ended the process",
          hint: "what was committed is kept, and 'perdure resume' goes on"
        )
      )
    }
    guard code == 0 else { throw PerdureError("out_of_memory", "there is no memory left") }
  }

  /// Says what the first signal does from now on.
  static func handle(_ body: @escaping @Sendable (Int32) -> Void) {
    handler.withLock { $0 = body }
  }

  /// Makes the error of work that a signal stopped.
  static func error(_ signal: Int32, hint: String?) -> PerdureError {
    PerdureError("interrupted", signal == 2 ? "interrupted" : "terminated", hint: hint)
  }

  /// Ends at once: there is nothing that must be closed.
  static func handleByEnding(_ reporter: Reporter) {
    handle { signal in
      reporter.end(
        ExitStatus(signal: signal),
        error: error(signal, hint: "nothing was started")
      )
    }
  }
}
