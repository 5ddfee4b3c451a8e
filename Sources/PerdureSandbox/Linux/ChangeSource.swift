import CPerdureLinux

/// Tells that something changed in files and folders that are open.
struct ChangeSource: Sendable {
  /// What happened.
  struct News: OptionSet, Sendable {
    let rawValue: Int32
    static let changed = News(rawValue: Int32(PERDURE_WATCH_CHANGED.rawValue))
    static let overflow = News(rawValue: Int32(PERDURE_WATCH_OVERFLOW.rawValue))
  }

  let descriptor: Descriptor

  init() throws(SystemFailure) { descriptor = try Descriptor(returned: perdure_watch_make()) }

  /// Begins to watch what a descriptor is, and returns the number of the watch.
  func add(_ file: Descriptor) throws(SystemFailure) -> Int32 {
    let number = perdure_watch_add(descriptor.number, file.number)
    if number < 0 { throw SystemFailure(number) }
    return number
  }

  func remove(_ number: Int32) { perdure_watch_remove(descriptor.number, number) }

  /// Takes all that has happened.
  func take() -> News { News(rawValue: perdure_watch_take(descriptor.number)) }
}
