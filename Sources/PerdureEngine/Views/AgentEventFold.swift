package import PerdureModel
package import PerdureValue

/// What a program shows of a conversation at work, and the events that carry it from commit to
/// commit.
package struct AgentEventFold: Fold {
  private let conversation: ConversationID
  package private(set) var value: AgentState
  package private(set) var end: WatchEnd?
  /// The documents that are shown, as they lie on disk.
  private var documents: [JSONString: Mounted] = [:]
  /// Generations whose outcome is decided, but which are not over.
  private var decided: Set<TaskID>

  /// One revision of a document.
  private struct Mounted {
    var id: DocumentID
    var version: Int64
    var value: JSON
  }

  /// The documents that it follows.
  package static let definitions: [DocumentDefinition] = [.live, .inbox, .agent, .usage]

  private static let kinds = Set(definitions.map { $0.kind })

  /// Makes the state of a conversation with these entries and documents; `decided` are its
  /// generations that have an outcome but are not over.
  package init(
    _ view: ConversationView,
    documents: [StoredDocument],
    decided: Set<TaskID>
  ) {
    conversation = view.conversation.id
    self.decided = decided
    for document in documents where Self.kinds.contains(document.record.address.kind) {
      self.documents[document.record.address.kind] = Mounted(
        id: document.record.id,
        version: document.version,
        value: document.value
      )
    }
    value = AgentState(entries: [])
    value = state(of: view.entries)
  }

  package var json: JSON { value.json }

  package mutating func apply(_ publication: Publication) -> [AgentEvent] {
    for case .deletion(conversation) in publication.changes {
      end = .deleted
      return []
    }
    var news = CommitNews(publication, of: conversation)
    let before = value(of: .live) ?? [:]
    for case .document(let record, let version, let new, let changes) in publication.changes
    where record.address.scope == .conversation(conversation) && record.address.key == nil {
      guard Self.kinds.contains(record.address.kind) else { continue }
      news.touchesDocuments = true
      let operations = follow(record, version, new, changes)
      if record.address.kind == DocumentDefinition.live.kind { news.add(operations) }
    }
    guard !news.isEmpty else { return [] }
    let after = value(of: .live) ?? [:]
    let next = state(of: [])
    var derivation = AgentEventDerivation(news, from: before, to: after, decided: decided)
    var events = derivation.events(from: value, to: next)
    decided = derivation.decided
    follow(&events, to: next)
    return events
  }

  private func value(of definition: DocumentDefinition) -> JSON? {
    documents[definition.kind]?.value
  }

  private func state(of entries: [EntryRecord]) -> AgentState {
    AgentState(
      entries: entries,
      live: value(of: .live),
      inbox: value(of: .inbox),
      agent: value(of: .agent),
      usage: value(of: .usage)
    )
  }

  /// Takes over one change of a document; returns what leads to its new value, or `nil` if that is
  /// not known.
  private mutating func follow(
    _ record: DocumentRecord,
    _ version: Int64?,
    _ new: JSON?,
    _ changes: [Operation]
  ) -> [Operation]? {
    let kind = record.address.kind
    let mounted = documents[kind]
    guard let version, let new else {
      // The end of an earlier incarnation says nothing of the one that took its place.
      guard mounted?.id == record.id else { return [] }
      documents[kind] = nil
      return nil
    }
    documents[kind] = Mounted(id: record.id, version: version, value: new)
    let isSame = mounted?.id == record.id && mounted?.version == version && !changes.isEmpty
    return isSame ? changes : nil
  }

  /// Applies the events as any reader does, and adds what they leave out.
  private mutating func follow(_ events: inout [AgentEvent], to next: AgentState) {
    var isAstray = false
    for event in events {
      do { try value.apply(event) } catch { isAstray = true }
    }
    if isAstray {
      // Events that do not fit cannot be told; the whole state can.
      value = AgentState(entries: value.entries, next)
      events = [.snapshot(value)]
    } else if value.live != next.live {
      var difference = Difference()
      difference.compare([], value.live, next.live)
      events.append(.liveUpdate(difference.operations))
      value.live = next.live
    }
  }
}

extension AgentState {
  /// These entries, and everything else as in another state.
  fileprivate init(entries: [EntryRecord], _ other: AgentState) {
    self = other
    self.entries = entries
  }
}

/// What one commit changed of one conversation.
struct CommitNews {
  var entries: [EntryRecord] = []
  var tasks: [TaskRecord] = []
  var submissions: [SubmissionRecord] = []
  /// The results of nested calls, by their tasks.
  var nestedResults: [TaskID: JSON] = [:]
  /// Whether a document that is shown changed.
  var touchesDocuments = false
  /// What leads to the new value of `pi.live`; `nil` if that is not known.
  var liveOperations: [Operation]? = []

  init(_ publication: Publication, of conversation: ConversationID) {
    for change in publication.changes {
      switch change {
      case .entry(let record) where record.conversationId == conversation: entries.append(record)
      case .task(let record) where record.conversationId == conversation: tasks.append(record)
      case .submission(let record) where record.conversationId == conversation:
        submissions.append(record)
      case .document(let record, _, let value, _) where record.address.kind == Self.nestedCall:
        if let task = TaskID(value?["taskId"]), let result = value?["result"] {
          nestedResults[task] = result
        }
      default: break
      }
    }
    submissions.sort { $0.id < $1.id }
  }

  private static let nestedCall: JSONString = "pi.tool.nested-call"

  var isEmpty: Bool {
    !touchesDocuments && entries.isEmpty && tasks.isEmpty && submissions.isEmpty
  }

  func task(_ id: TaskID?) -> TaskRecord? { tasks.first { $0.id == id } }

  mutating func add(_ operations: [Operation]?) {
    guard let operations, liveOperations != nil else {
      liveOperations = nil
      return
    }
    liveOperations?.append(contentsOf: operations)
  }
}
