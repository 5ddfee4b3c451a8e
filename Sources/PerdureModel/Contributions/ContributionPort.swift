/// What the engine tells those who run the contributions of plugins, beside what it lets these read.
package protocol ContributionPort: Sendable {
  /// Why the call is to end, if the engine wants it to.
  var cancelReason: CancelReason? { get }
  /// The tasks in the course of which the task of the call was created.
  func tasksAbove() async throws -> Set<TaskID>
}

/// The same for those who run something around a tool.
package protocol WrapPort: ContributionPort {
  /// Runs `atEnd` once this much time has passed in which the call did not wait for the host.
  ///
  /// The returned closure takes that back.
  func deadline(
    nanoseconds: Int64,
    _ atEnd: @escaping @Sendable () async -> Void
  ) -> @Sendable () -> Void
  /// Ends the call as one that did not answer in time, though its code still runs.
  func giveUp()
}
