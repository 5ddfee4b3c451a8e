import Synchronization

/// What plugins may refer to for ever, because their code is never unmapped.
///
/// Kept here on purpose, so that it is no leak: one small entry for each copy that was ever loaded.
enum Immortals {
  private struct State {
    var tables: [HostTables] = []
    var names: [String: ImmortalName] = [:]
    var retired: [RetiredCopy] = []
  }

  private static let state = Mutex(State())

  static func keep(_ tables: HostTables) { state.withLock { $0.tables.append(tables) } }

  /// The one copy of `text` that is never freed.
  static func name(_ text: String) -> ImmortalName {
    state.withLock { state in
      if let name = state.names[text] { return name }
      let name = ImmortalName(text)
      state.names[text] = name
      return name
    }
  }

  /// Counts a copy that was closed and stays mapped.
  static func retire(_ copy: RetiredCopy) { state.withLock { $0.retired.append(copy) } }

  /// How many copies stay mapped without being used.
  static var retired: Int { state.withLock { $0.retired.count } }

  /// Those copies.
  static var retiredCopies: [RetiredCopy] { state.withLock { $0.retired } }
}
