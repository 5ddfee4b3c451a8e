/// Whether there is somebody to run the code of a plugin.
enum Availability: Sendable, Equatable {
  case up
  /// Its process is gone and is started again.
  case away
  /// Nobody runs it until somebody says so, for this reason.
  case quarantined(String)
}
