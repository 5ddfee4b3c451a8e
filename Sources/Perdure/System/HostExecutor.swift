import CPerdureLinux

/// The threads on which the tasks of this process run.
package enum HostExecutor {
  /// Lets threads of our own run them, which sleep while there is nothing to do; for programs, first
  /// thing in `main`.
  ///
  /// The main actor, `Task.sleep` and `Task.yield` stay with libdispatch, whose threads wake every
  /// second from their first use on: a program leaves the main actor next and uses neither. Without
  /// memory for a thread everything stays with libdispatch.
  package static func install() { _ = perdure_executor_install() }
}
