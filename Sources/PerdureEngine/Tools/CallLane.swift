import PerdureModel
import PerdureValue
import Synchronization

/// The calls of one tool that are under way, also those that were given up and may still run.
///
/// A call enters before anything outside may happen, and leaves when its code has returned, however
/// late that is. So the effects of a call that was given up never meet those of the next one.
final class CallLane: Sendable {
  /// What a tool demands of those beside a call of it.
  struct Rule: Sendable {
    var limit: Int?
    /// Whether a call that was given up holds others back.
    var minds: Bool

    init(_ tool: Tool) {
      limit = tool.maxConcurrency.map { max(1, $0) }
      minds = tool.replay == .unsafe
    }
  }

  private struct Entry {
    var task: TaskID
    var isAbandoned = false
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    var nextId = 1
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    /// Those who were cancelled before they waited.
    var cancelled: Set<Int> = []
  }

  /// What came of the wish to enter.
  enum Entrance {
    case entered(Int)
    case full(becauseAbandoned: Bool)
  }

  private let state = Mutex(State())

  /// How many calls are in it.
  var count: Int { state.withLock { $0.entries.count } }

  /// Enters if the rule allows it; calls above it in the tree of work do not count.
  func enter(_ task: TaskID, _ rule: Rule, passing above: Set<TaskID> = []) -> Entrance {
    state.withLock { state in
      let others = state.entries.values.filter { !above.contains($0.task) }
      let hasAbandoned = others.contains { $0.isAbandoned }
      let isFull = rule.limit.map { others.count >= $0 } ?? false
      if isFull || rule.minds && hasAbandoned { return .full(becauseAbandoned: hasAbandoned) }
      let id = state.nextId
      state.nextId += 1
      state.entries[id] = Entry(task: task)
      return .entered(id)
    }
  }

  /// Notes that a call was given up while its code runs.
  func abandon(_ id: Int) { state.withLock { $0.entries[id]?.isAbandoned = true } }

  func leave(_ id: Int) {
    let waiting = state.withLock { state in
      guard state.entries.removeValue(forKey: id) != nil else {
        return [CheckedContinuation<Void, Never>]()
      }
      defer { state.waiting = [:] }
      return state.waiting.sorted { $0.key < $1.key }.map { $0.value }
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Returns when a call has left, at once if `enter` succeeds meanwhile, or on cancellation.
  func waitForChange(_ task: TaskID, _ rule: Rule, passing above: Set<TaskID>) async {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mayGo = state.withLock { state in
          let others = state.entries.values.filter { !above.contains($0.task) }
          let isFull = rule.limit.map { others.count >= $0 } ?? false
          let isBarred = isFull || rule.minds && others.contains { $0.isAbandoned }
          if !isBarred || state.cancelled.remove(id) != nil { return true }
          state.waiting[id] = continuation
          return false
        }
        if mayGo { continuation.resume() }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        guard let continuation = state.waiting.removeValue(forKey: id) else {
          state.cancelled.insert(id)
          return nil as CheckedContinuation<Void, Never>?
        }
        return continuation
      }
      continuation?.resume()
    }
    state.withLock { _ = $0.cancelled.remove(id) }
  }
}

/// The place of one call in the lanes of its tool; it is given back once.
final class LanePass: Sendable {
  private let places: Mutex<[(lane: CallLane, id: Int)]>

  init(_ places: [(lane: CallLane, id: Int)]) { self.places = Mutex(places) }

  deinit { leave() }

  func abandon() { for place in places.withLock({ $0 }) { place.lane.abandon(place.id) } }

  func leave() {
    let left = places.withLock { places in
      defer { places = [] }
      return places
    }
    for place in left { place.lane.leave(place.id) }
  }
}

/// The lanes of the tools of one engine, by their names.
final class CallLanes: Sendable {
  private struct Name: Hashable {
    var extensionName: JSONString
    var tool: JSONString
  }

  /// The lanes of values of tools, which several engines of a process may share.
  private static let shared = Mutex<[ObjectIdentifier: Shared]>([:])

  private struct Shared {
    weak var identity: ToolIdentity?
    var lane: CallLane
  }

  private let named = Mutex<[Name: CallLane]>([:])

  /// The lanes that a call of this tool goes through, always in this order.
  func lanes(of tool: Tool, _ extensionName: String) -> [CallLane] {
    let name = Name(extensionName: JSONString(extensionName), tool: JSONString(tool.name))
    let own = named.withLock { named in
      let lane = named[name] ?? CallLane()
      named[name] = lane
      return lane
    }
    return [own, Self.lane(of: tool.identity)]
  }

  private static func lane(of identity: ToolIdentity) -> CallLane {
    shared.withLock { shared in
      if let known = shared[ObjectIdentifier(identity)], known.identity === identity {
        return known.lane
      }
      // Tools that are gone and have no call under way are forgotten.
      shared = shared.filter { $0.value.identity != nil || $0.value.lane.count > 0 }
      let lane = CallLane()
      shared[ObjectIdentifier(identity)] = Shared(identity: identity, lane: lane)
      return lane
    }
  }
}

extension TaskRuntime {
  /// Returns a place for a call of a tool once it may be made beside those that are under way.
  ///
  /// Throws `invocationEnded` if the call is cancelled while it waits, and `tool_unavailable` if one
  /// that was given up has not returned for as long as a call may take.
  func enterLanes(of tool: Tool, _ extensionName: String) async throws -> LanePass {
    let rule = CallLane.Rule(tool)
    var places: [(lane: CallLane, id: Int)] = []
    var above: Set<TaskID>?
    var hasTold = false
    let patience = LanePatience()
    do {
      for lane in surroundings.lanes.lanes(of: tool, extensionName) {
        while true {
          try checkSignal()
          let entrance = lane.enter(taskId, rule, passing: above ?? [])
          if case .entered(let id) = entrance {
            places.append((lane, id))
            break
          }
          guard let passed = above else {
            // Looked up only where it matters: most calls find their lane free.
            above = try await tasksAbove()
            continue
          }
          if patience.isOver {
            throw PerdureError(
              "tool_unavailable",
              "a call of the tool '\(tool.name)' that was given up may still be running"
            )
          }
          if case .full(becauseAbandoned: true) = entrance, !hasTold {
            hasTold = true
            patience.begin(surroundings.clock, tool.deadline + tool.grace)
            report(
              "a call of the tool '\(tool.name)' waits, because one that was given up may still run",
              type: "tool_waiting"
            )
          }
          let task = taskId
          await patience.wait { await lane.waitForChange(task, rule, passing: passed) }
        }
      }
    } catch {
      LanePass(places).leave()
      throw error
    }
    return LanePass(places)
  }

  /// The tasks below which this one was made.
  func tasksAbove() async throws -> Set<TaskID> {
    try await scheduler.session.line.hold {
      try await scheduler.catchUp()
      var above: Set<TaskID> = []
      var node: TaskForest.Node? = .task(taskId)
      while let current = node, let link = try await scheduler.link(of: current) {
        node = link.parent
        if case .task(let id)? = node { above.insert(id) }
      }
      return above
    }
  }
}
