/// Lets every task that is ready run before the caller goes on.
///
/// Unlike `Task.yield()`, which always hands the caller to libdispatch, it keeps to the threads that
/// the program chose for its tasks.
package func giveWay() async {
  await withCheckedContinuation { waiter in
    // Comes after all that is ready, and so does the caller, whom it wakes.
    Task.detached { waiter.resume() }
  }
}
