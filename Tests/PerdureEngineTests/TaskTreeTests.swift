import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Holds and cascades over every tree of tasks of up to three levels.
@Suite(.timeLimit(.minutes(5))) struct TaskTreeTests {
  /// How a node hangs below its parent.
  enum Link: CaseIterable {
    case owned, inConversation, inBackground
  }

  struct Node {
    var link: Link
    var children: [Node] = []

    var count: Int { children.reduce(1) { $0 + $1.count } }
  }

  /// All lists of up to two children of the given height.
  static func children(_ height: Int) -> [[Node]] {
    guard height > 0 else { return [[]] }
    let nodes = Link.allCases.flatMap { link in
      children(height - 1).map { Node(link: link, children: $0) }
    }
    var lists: [[Node]] = [[]] + nodes.map { [$0] }
    for (index, first) in nodes.enumerated() {
      for second in nodes[index...] { lists.append([first, second]) }
    }
    return lists
  }

  /// Every tree below a task with two levels under it, and at most three tasks.
  static let trees = children(2).filter { $0.reduce(0) { $0 + $1.count } <= 3 }

  /// What happens to the task at the top.
  enum Fate: String, CaseIterable {
    case completed, failed, faulted, aborted
  }

  /// A tree as it was made.
  final class Planted {
    /// Each task with those to whose ordinary work it belongs, the nearest first.
    var above: [TaskID: [TaskID]] = [:]
    /// The tasks that belong to the ordinary work of the top.
    var ordinary: Set<TaskID> = []
    var all: [TaskID] = []
  }

  private static let far: Int64 = 3_600_000

  private struct Garden {
    let bench = TestBench()
    let go = Event()
    let aborted = Log<TaskID>()
    let node: TestTask
    let top: TestTask

    init() {
      let (go, aborted, now) = (go, aborted, bench.clock.now())
      let abort: TaskDefinition.Phase = { runtime, _ in
        aborted.add(runtime.taskId)
        try await runtime.commit { _, _ in .terminal(.aborted()) }
      }
      node = TestTask(
        "node",
        phases: [
          "start": { runtime, _ in
            try await runtime.commit { _, _ in
              .sleeping(checkpoint: ["phase": "wake"], until: now + TaskTreeTests.far)
            }
          },
          "wake": { runtime, _ in
            try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
          },
        ],
        abort: abort
      )
      top = TestTask(
        "top",
        phases: [
          "start": { runtime, record in
            await go.waitOrCancel()
            switch record.input {
            case "completed":
              try await runtime.commit { _, _ in .terminal(.completed(result: 1)) }
            case "failed": try await runtime.commit { _, _ in .terminal(.failed(message: "no")) }
            default: throw PerdureError(.invalidInput, "it broke")
            }
          }
        ],
        abort: abort
      )
    }

    func plant(
      _ trees: [Node],
      below parent: TaskID,
      _ engine: Engine,
      _ planted: Planted
    )
      async throws
    {
      for tree in trees {
        let id: TaskID
        if tree.link == .owned {
          let home = try #require(try await engine.task(parent)).conversationId
          id = try await engine.create(node, owner: parent, in: home)
        } else {
          let home = try await engine.session.commit {
            try await $0.createConversation(owner: parent).id
          }
          id = try await engine.create(node, in: home, background: tree.link == .inBackground)
        }
        let isOrdinary =
          tree.link != .inBackground
          && (planted.above[parent] == nil || planted.ordinary.contains(parent))
        let isBoundary = tree.link == .inBackground
        planted.above[id] = isBoundary ? [] : [parent] + (planted.above[parent] ?? [])
        if isOrdinary { planted.ordinary.insert(id) }
        planted.all.append(id)
        try await plant(tree.children, below: id, engine, planted)
      }
    }
  }

  @Test(arguments: Fate.allCases)
  func `a task ends after its ordinary work and takes it along unless it completed`(
    _ fate: Fate
  ) async throws {
    for (number, tree) in Self.trees.enumerated() {
      try await check(tree, fate, "tree \(number) \(fate.rawValue)")
    }
  }

  private func check(_ tree: [Node], _ fate: Fate, _ name: Comment) async throws {
    let garden = Garden()
    let engine = try await garden.bench.open([garden.node, garden.top])
    let commits = Commits(engine.session)
    let top = try await engine.create(garden.top, input: .string(JSONString(fate.rawValue)))
    await commits.status(top, .running)
    let planted = Planted()
    try await garden.plant(tree, below: top, engine, planted)
    for id in planted.all { await commits.status(id, .sleeping) }
    if fate == .aborted {
      #expect(try await engine.abortTask(top) == .marked, name)
    } else {
      garden.go.happen()
    }
    if fate == .completed, !planted.ordinary.isEmpty {
      await commits.status(top, .completing)
      await engine.session.waitForStaged()
      for id in planted.all { #expect(try await engine.status(id) == .sleeping, name) }
      garden.bench.clock.advance(by: .milliseconds(Self.far))
    }
    #expect(try await engine.outcome(top)?.name == fate.rawValue, name)
    let ended = commits.ended
    let position = try #require(ended.firstIndex(of: top))
    #expect(planted.ordinary.isSubset(of: Set(ended[...position])), name)
    if fate != .completed {
      let last = fate == .aborted ? [top] : []
      #expect(Set(garden.aborted.all) == planted.ordinary.union(last), name)
      checkOrder(garden.aborted.all, planted, name)
      for id in planted.all where !planted.ordinary.contains(id) {
        #expect(try await engine.status(id) == .sleeping, name)
      }
    }
    try await garden.bench.end(engine)
  }

  /// Each task aborts before those above it.
  private func checkOrder(_ order: [TaskID], _ planted: Planted, _ name: Comment) {
    for (index, id) in order.enumerated() {
      let above = Set(planted.above[id] ?? [])
      #expect(above.isDisjoint(with: order[..<index]), name)
    }
  }

  @Test(arguments: [false, true])
  func `an abort of a conversation reaches its ordinary work and with background all of it`(
    _ background: Bool
  ) async throws {
    for (number, tree) in Self.trees.enumerated() {
      let name: Comment = "tree \(number)"
      let garden = Garden()
      let engine = try await garden.bench.open([garden.node, garden.top])
      let commits = Commits(engine.session)
      let top = try await engine.create(garden.top)
      await commits.status(top, .running)
      let planted = Planted()
      try await garden.plant(tree, below: top, engine, planted)
      for id in planted.all { await commits.status(id, .sleeping) }
      try await engine.abortAndWait(.root, background: background)
      let reached = background ? Set(planted.all) : planted.ordinary
      #expect(Set(garden.aborted.all) == reached.union([top]), name)
      checkOrder(garden.aborted.all, planted, name)
      for id in planted.all {
        let expected: TaskState.Status = reached.contains(id) ? .terminal : .sleeping
        #expect(try await engine.status(id) == expected, name)
      }
      try await garden.bench.end(engine)
    }
  }

  @Test(arguments: Fate.allCases)
  func `what a crash left of a hold or a cascade is derived again`(_ fate: Fate) async throws {
    for (number, tree) in Self.trees.enumerated() where !tree.isEmpty {
      let name: Comment = "tree \(number) \(fate.rawValue)"
      let garden = Garden()
      let first = try await garden.bench.open([garden.node, garden.top])
      let commits = Commits(first.session)
      let top = try await first.create(garden.top, input: .string(JSONString(fate.rawValue)))
      await commits.status(top, .running)
      let planted = Planted()
      try await garden.plant(tree, below: top, first, planted)
      for id in planted.all { await commits.status(id, .sleeping) }
      try await first.session.barrier()
      let death = garden.bench.afterDeath()
      try await first.close()
      // The commit of the mark or of the held outcome, and nothing after it.
      let session = try await Session.open(death.memory, clock: death.clock)
      var record = try #require(session.liveTask(top))
      switch fate {
      case .aborted: record.abortRequested = true
      case .completed: record.state = .completing(.completed(result: 1))
      case .failed: record.state = .completing(.failed(message: "no"))
      case .faulted: record.state = .completing(.faulted(message: "no"))
      }
      _ = try await session.store.stage([.task(record)])
      try await session.close()
      let last = death.afterDeath()
      let engine = try await last.open([garden.node, garden.top])
      if fate == .completed { last.clock.advance(by: .milliseconds(Self.far)) }
      #expect(try await engine.outcome(top)?.name == fate.rawValue, name)
      for id in planted.all where fate != .completed {
        let expected: TaskState.Status = planted.ordinary.contains(id) ? .terminal : .sleeping
        #expect(try await engine.status(id) == expected, name)
      }
      try await last.end(engine)
    }
  }

  @Test func `a task without code that is aborted takes its ordinary work along and is orphaned`()
    async throws
  {
    for (number, tree) in Self.trees.enumerated() {
      let name: Comment = "tree \(number)"
      let garden = Garden()
      let engine = try await garden.bench.open([garden.node])
      let commits = Commits(engine.session)
      let top = try await engine.create(garden.top)
      let planted = Planted()
      try await garden.plant(tree, below: top, engine, planted)
      for id in planted.all { await commits.status(id, .sleeping) }
      #expect(try await engine.abortTask(top) == .marked, name)
      #expect(try await engine.outcome(top) == .orphaned(reason: "missing_task"), name)
      #expect(Set(garden.aborted.all) == planted.ordinary, name)
      checkOrder(garden.aborted.all, planted, name)
      for id in planted.all where !planted.ordinary.contains(id) {
        #expect(try await engine.status(id) == .sleeping, name)
      }
      try await garden.bench.end(engine)
    }
  }
}

extension Commits {
  /// The tasks that became terminal, in the order of their commits.
  var ended: [TaskID] { all.flatMap { $0.tasks.filter { !$0.isLive }.map { $0.id } } }
}

extension Session {
  /// Returns when what was admitted before has been decided.
  func waitForStaged() async { try? await line.hold {} }
}
