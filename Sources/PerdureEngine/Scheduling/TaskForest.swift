import PerdureModel
import PerdureValue

/// What hangs below what: live tasks, and the conversations and ended tasks between them.
///
/// For each node it counts the children that are ordinary live work, or have such work below them;
/// a background task is a boundary and does not count for what is above it. A node without live
/// work below is not kept, so the forest is as large as the live work.
struct TaskForest: Sendable {
  /// A task or a conversation.
  enum Node: Hashable, Sendable {
    case task(TaskID)
    case conversation(ConversationID)

    // Tasks and conversations share the ids of the store, so the sign tells them apart.
    var code: Int64 {
      switch self {
      case .task(let id): id.value
      case .conversation(let id): -id.value
      }
    }

    init?(code: Int64) {
      if let id = TaskID(code) {
        self = .task(id)
      } else if code < 0, let id = ConversationID(-code) {
        self = .conversation(id)
      } else {
        return nil
      }
    }
  }

  /// Where a node hangs.
  struct Link: Sendable, Equatable {
    /// Absent for a conversation that no task owns.
    var parent: Node?
    var isBackground = false
    /// Whether it is a task that has not ended.
    var isLive = false

    init(parent: Node?, isBackground: Bool = false, isLive: Bool = false) {
      self.parent = parent
      self.isBackground = isBackground
      self.isLive = isLive
    }

    init(_ record: TaskRecord) {
      parent = record.parentNode
      isBackground = record.background
      isLive = record.isLive
    }

    // Ids have 53 bits, so that there is room for the two marks.
    fileprivate var packed: Int64 {
      (parent?.code ?? 0) * 4 + (isBackground ? 2 : 0) + (isLive ? 1 : 0)
    }

    fileprivate init(packed: Int64) {
      parent = Node(code: packed >> 2)
      isBackground = packed & 2 != 0
      isLive = packed & 1 != 0
    }
  }

  private var links = OrderedPairs()
  private var counts = OrderedPairs()
  private var busyRoots = 0

  /// How much it holds.
  var size: Int { links.count + counts.count }

  /// Whether some conversation that no task owns has ordinary live work below it.
  var hasWork: Bool { busyRoots > 0 }

  /// The link of a live task, or of what lies between live tasks and their root.
  func link(of node: Node) -> Link? { links[node.code].map { Link(packed: $0) } }

  func isLive(_ id: TaskID) -> Bool { links[id.value].map { $0 & 1 != 0 } ?? false }

  /// Whether ordinary live work hangs below a node.
  func hasWork(below node: Node) -> Bool { counts[node.code] != nil }

  /// The live tasks, by id.
  var liveTasks: [(id: TaskID, link: Link)] {
    var tasks: [(TaskID, Link)] = []
    links.visit { pair in
      if pair.value & 1 != 0, let id = TaskID(pair.key) {
        tasks.append((id, Link(packed: pair.value)))
      }
    }
    return tasks
  }

  /// Adds a live task; `chain` has the links between it and the first node that is here.
  mutating func add(_ id: TaskID, _ link: Link, chain: [(node: Node, link: Link)]) {
    guard !isLive(id) else { return }
    // With work below, an ended task counts already.
    let isCounted = hasWork(below: .task(id))
    links[id.value] = link.packed
    guard !link.isBackground, !isCounted, let parent = link.parent else { return }
    for (node, link) in chain where links[node.code] == nil { links[node.code] = link.packed }
    raise(parent)
  }

  private mutating func raise(_ start: Node) {
    var next: Node? = start
    while let node = next {
      let count = counts[node.code] ?? 0
      counts[node.code] = count + 1
      guard count == 0, let link = link(of: node) else { return }
      next = above(node, link)
      if next == nil, case .conversation = node, link.parent == nil { busyRoots += 1 }
    }
  }

  /// Notes that a task has ended.
  mutating func end(_ id: TaskID) {
    guard var link = link(of: .task(id)), link.isLive else { return }
    if hasWork(below: .task(id)) {
      link.isLive = false
      links[id.value] = link.packed
      return
    }
    links[id.value] = nil
    if !link.isBackground, let parent = link.parent { lower(parent) }
  }

  private mutating func lower(_ start: Node) {
    var next: Node? = start
    while let node = next {
      guard let count = counts[node.code] else { return }
      if count > 1 {
        counts[node.code] = count - 1
        return
      }
      counts[node.code] = nil
      guard let link = link(of: node) else { return }
      next = above(node, link)
      if next == nil, case .conversation = node, link.parent == nil { busyRoots -= 1 }
      if !link.isLive { links[node.code] = nil }
    }
  }

  /// The node for which it matters whether this one has work below it.
  private func above(_ node: Node, _ link: Link) -> Node? {
    link.isLive || link.isBackground ? nil : link.parent
  }
}

extension TaskRecord {
  /// The task that owns it, or else its conversation.
  var parentNode: TaskForest.Node { owner.map { .task($0) } ?? .conversation(conversationId) }

  /// Whether its outcome is decided and it did not complete.
  var hasFailed: Bool { state.outcome.map { !$0.isCompleted } ?? false }

  /// Whether everything below it is to end: it is marked, or holds an outcome other than completed.
  var isCancelling: Bool { isLive && (abortRequested || hasFailed) }

  /// This record with an abort mark; its restarts count the abort handler from now on.
  func marked(reason: JSONString? = nil) -> TaskRecord {
    var record = self
    record.abortRequested = true
    record.abortReason = reason
    record.restarts = nil
    return record
  }
}
