import Glibc
import PerdureEngine
import PerdureModel
import PerdureValue
import Synchronization

/// What has happened in a scenario so far, for those who wait for it.
final class Events: Sendable {
  /// What a step waits for before it aborts or dies.
  struct Condition: Sendable {
    var waiting: Int
    var results: Int
    var queued: Int
    var partial: Bool
    var sleeping: Bool
    var summarized: Bool

    init(_ json: JSON) {
      waiting = Int(json["waiting"]?.int ?? 0)
      results = Int(json["results"]?.int ?? 0)
      queued = Int(json["queued"]?.int ?? 0)
      partial = json["partial"] == true
      sleeping = json["sleeping"] == true
      summarized = json["summarized"] == true
    }
  }

  private struct State {
    var waiting = 0
    var releases = 0
    var results = 0
    var queued = 0
    var asked: [String: Int] = [:]
    var summaries: [JSON] = []
    var partial = false
    var sleeping = false
    var summarized = false
    var waiter: (condition: Condition, continuation: CheckedContinuation<Void, Never>)?
  }

  /// Whether tools and models wait where the scenario says so.
  let isWriting: Bool
  private let state = Mutex(State())

  init(isWriting: Bool) { self.isWriting = isWriting }

  /// Forgets what has happened.
  func reset() {
    state.withLock { state in
      state.results = 0
      state.partial = false
      state.sleeping = false
      state.summarized = false
    }
  }

  /// Forgets which calls wait, once they have ended.
  func resetWaiting() { state.withLock { $0.waiting = 0 } }

  /// How often those who waited have been let go on.
  var releases: Int { state.withLock { $0.releases } }

  /// Lets those who wait now go on.
  func release() {
    state.withLock { state in
      state.waiting = 0
      state.releases += 1
    }
  }

  /// Says what the next summaries are.
  func plan(_ turns: [JSON]) { state.withLock { $0.summaries += turns } }

  /// Returns the turn of the next summary.
  func nextSummary() -> JSON {
    state.withLock { $0.summaries.isEmpty ? ["say": ["a summary"]] : $0.summaries.removeFirst() }
  }

  /// Counts a request for a turn, and returns how many there were.
  func ask(_ text: JSONString, turn: Int) -> Int {
    state.withLock { state in
      let count = (state.asked["\(turn) \(text.string)"] ?? 0) + 1
      state.asked["\(turn) \(text.string)"] = count
      return count
    }
  }

  /// How many calls wait.
  var waiting: Int { state.withLock { $0.waiting } }

  /// A call has reached the place where it waits.
  func arrive() { change { $0.waiting += 1 } }

  /// Takes in a commit that is on disk.
  func observe(_ publication: Publication) {
    change { state in
      for case .entry(let entry) in publication.changes where entry.kind == "pi.tool-result" {
        state.results += 1
      }
      for case .task(let task) in publication.changes where task.state.status == .sleeping {
        state.sleeping = true
      }
      for case .task(let task) in publication.changes
      where task.kind == "pi.compaction" && !task.isLive {
        state.summarized = true
      }
      for case .document(let record, _, let value, _) in publication.changes
      where record.address.kind == "pi.inbox" {
        state.queued = value?["items"]?.array?.count ?? 0
      }
      for case .document(_, _, let value, _) in publication.changes
      where value?["generation"]?["message"] != nil {
        state.partial = true
      }
    }
  }

  /// Returns once the condition holds.
  func wait(for condition: Condition) async {
    await withCheckedContinuation { continuation in
      change { $0.waiter = (condition, continuation) }
    }
  }

  private func change(_ body: (inout State) -> Void) {
    let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
      body(&state)
      guard let (condition, continuation) = state.waiter, state.waiting >= condition.waiting,
        state.results >= condition.results, state.queued >= condition.queued,
        state.partial || !condition.partial,
        state.sleeping || !condition.sleeping,
        state.summarized || !condition.summarized
      else { return nil }
      state.waiter = nil
      return continuation
    }
    waiter?.resume()
  }

  /// Ends the process as a crash does.
  static func die() -> Never {
    kill(getpid(), SIGKILL)
    while true { pause() }
  }
}
