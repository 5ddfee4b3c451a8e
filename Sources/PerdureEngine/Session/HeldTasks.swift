package import PerdureModel

/// The records of live tasks that are kept in memory.
///
/// Whatever runs, is about to run, ends or is to be aborted is kept. Of those that wait or sleep
/// only the newest are kept, because there may be very many; the store has the others.
package struct HeldTasks: Sendable {
  package static let greatestDormantCount = 1_024

  /// Whether every live task is here; it never is again once one was left out.
  var isComplete = true
  private(set) var records: [TaskID: TaskRecord] = [:]
  /// When each dormant task that is kept became dormant.
  private var ages: [TaskID: Int] = [:]
  private var order: [(id: TaskID, age: Int)] = []
  private var nextAge = 1

  /// Makes an empty one.
  package init() {}

  /// How many places the order of the dormant tasks takes, outdated ones included.
  package var placeCount: Int { order.count }

  /// Takes over the newest record of a task.
  package mutating func adopt(_ record: TaskRecord) {
    ages[record.id] = nil
    records[record.id] = record.isLive ? record : nil
    guard record.isDormant else { return }
    ages[record.id] = nextAge
    order.append((record.id, nextAge))
    nextAge += 1
    if ages.count > Self.greatestDormantCount { return dropOldest() }
    // Most tasks that wait go on soon, and their places in the order must go too.
    if order.count > 2 * Self.greatestDormantCount { dropOutdated() }
  }

  private mutating func dropOutdated() { order.removeAll { ages[$0.id] != $0.age } }

  // In portions, so that the front of the list is moved rarely.
  private mutating func dropOldest() {
    dropOutdated()
    isComplete = false
    let surplus = order.prefix(Self.greatestDormantCount / 4)
    for (id, _) in surplus {
      ages[id] = nil
      records[id] = nil
    }
    order.removeFirst(surplus.count)
  }
}

extension TaskRecord {
  /// Whether it has nothing to do until something else ends, or until a time.
  var isDormant: Bool {
    switch state {
    case .waiting, .sleeping: !abortRequested
    case .pending, .running, .completing, .terminal: false
    }
  }
}
