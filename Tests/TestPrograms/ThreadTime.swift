import Glibc

/// The work of the calling thread, which other tests, and a busy machine, do not add to.
package enum ThreadTime {
  /// Returns what `body` cost, as time of the processor.
  package static func measure(_ body: () throws -> Void) rethrows -> Duration {
    let begin = now
    try body()
    return now - begin
  }

  private static var now: Duration {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
}
