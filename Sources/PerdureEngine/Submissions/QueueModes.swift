/// How many queued inputs of a kind a boundary places.
package enum QueueMode: String, Sendable, CaseIterable {
  case oneAtATime = "one-at-a-time"
  case all
}

/// What becomes of the inputs that are queued behind a run that failed.
package enum AfterFailedRun: String, Sendable, CaseIterable {
  /// They stay queued until the next submission.
  case keep
  /// The next run starts with them.
  case `continue`
  /// They end unanswered.
  case withdraw
}

/// How many steering and following inputs a boundary places.
package struct QueueModes: Sendable, Equatable {
  package var steering: QueueMode
  package var followUp: QueueMode

  package init(steering: QueueMode = .oneAtATime, followUp: QueueMode = .oneAtATime) {
    self.steering = steering
    self.followUp = followUp
  }
}
