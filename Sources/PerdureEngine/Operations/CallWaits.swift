import PerdureModel
import PerdureValue
import Synchronization

/// Which tasks' code waits for which tasks, while it stays in memory.
final class CallWaits: Sendable {
  private struct Wait: Equatable {
    var number: Int
    var waiter: TaskID
    var target: TaskID
  }

  private let waits = Mutex<(last: Int, all: [Wait])>((0, []))

  /// Notes a wait; the returned closure takes it back.
  func add(_ waiter: TaskID, _ target: TaskID) -> @Sendable () -> Void {
    let number = waits.withLock { waits in
      waits.last += 1
      waits.all.append(Wait(number: waits.last, waiter: waiter, target: target))
      return waits.last
    }
    return { [weak self] in self?.waits.withLock { $0.all.removeAll { $0.number == number } } }
  }

  /// The tasks for which the code of a task waits.
  func targets(of waiter: TaskID) -> [TaskID] {
    waits.withLock { $0.all.filter { $0.waiter == waiter }.map(\.target) }
  }
}

extension Scheduler {
  /// The way on which one task waits for another, or `nil`; called on the line.
  ///
  /// It leads over waits in memory and in the store, and over the work below a task.
  func callCycle(
    from start: TaskID,
    to end: TaskID,
    _ session: Session
  ) async throws -> [TaskID]? {
    if start == end { return [start] }
    try await catchUp()
    var before: [TaskID: TaskID] = [:]
    var seen: Set<TaskID> = [start]
    var pending = [start]
    while let id = pending.popLast() {
      var targets = callWaits.targets(of: id)
      if case .waiting(_, let on, _)? = session.liveTask(id)?.state { targets += on }
      // A task ends after all that is below it.
      targets += try await tasks(below: .task(id))
      for target in targets where seen.insert(target).inserted {
        before[target] = id
        if target == end {
          var path = [target]
          while let last = path.last, last != start, let previous = before[last] {
            path.append(previous)
          }
          return path.reversed()
        }
        pending.append(target)
      }
    }
    return nil
  }
}
