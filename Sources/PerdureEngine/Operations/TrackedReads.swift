import PerdureModel
import PerdureValue
import Synchronization

/// What was read for one commit, and whether somebody has touched it since.
final class TrackedReads: ReadTracking {
  /// Something that was looked at by its name.
  enum Item: Hashable {
    case conversation(ConversationID)
    case entry(EntryID)
    case transcript(ConversationID)
    case task(TaskID)
    case submission(SubmissionID)
    case request(ConversationID, JSONString)
    case document(DocumentAddress)
  }

  private struct State {
    var items: Set<Item> = []
    var conversations: [ConversationQuery] = []
    var tasks: [TaskFilter] = []
    var isTouched = false
  }

  private let state = Mutex(State())
  private let tracker: ReadTracker

  init(_ tracker: ReadTracker) { self.tracker = tracker }

  /// Whether something that was read is not as it was.
  var isTouched: Bool { state.withLock { $0.isTouched } }

  func note(_ item: Item) { state.withLock { _ = $0.items.insert(item) } }

  func note(_ query: ConversationQuery) { state.withLock { $0.conversations.append(query) } }

  func note(_ filter: TaskFilter) { state.withLock { $0.tasks.append(filter) } }

  /// Looks at a commit of somebody else.
  func see(_ publication: Publication) {
    state.withLock { state in
      guard !state.isTouched else { return }
      state.isTouched = publication.changes.contains { Self.touches($0, publication, state) }
    }
  }

  func end() { tracker.remove(self) }

  private static func touches(
    _ change: Publication.Change,
    _ publication: Publication,
    _ state: State
  ) -> Bool {
    switch change {
    case .conversation(let record):
      state.items.contains(.conversation(record.id))
        || state.conversations.contains { query in
          (query.ownerTaskId.map { $0 == record.owner?.taskId } ?? true)
            && (query.ownerConversationId.map { $0 == record.owner?.conversationId } ?? true)
        }
    case .entry(let record):
      state.items.contains(.entry(record.id))
        || state.items.contains(.transcript(record.conversationId))
    case .task(let record):
      state.items.contains(.task(record.id))
        || state.tasks.contains { filter in
          filter.fits(record) || (publication.replaced[record.id].map(filter.fits) ?? false)
        }
    case .submission(let record):
      state.items.contains(.submission(record.id))
        || (record.requestId.map {
          state.items.contains(.request(record.conversationId, $0))
        } ?? false)
    case .document(let record, _, _, _), .documentCopy(let record, _):
      state.items.contains(.document(record.address))
    case .removal(let reference): touches(reference, state)
    case .deletion(let id):
      state.items.contains(.conversation(id)) || state.items.contains(.transcript(id))
    }
  }

  private static func touches(_ reference: RecordReference, _ state: State) -> Bool {
    switch reference.type {
    case .conversation:
      !state.conversations.isEmpty
        || ConversationID(reference.id).map { state.items.contains(.conversation($0)) } ?? false
    case .entry: EntryID(reference.id).map { state.items.contains(.entry($0)) } ?? false
    case .task:
      !state.tasks.isEmpty
        || TaskID(reference.id).map { state.items.contains(.task($0)) } ?? false
    case .submission:
      SubmissionID(reference.id).map { state.items.contains(.submission($0)) } ?? false
    case .document: false
    }
  }
}

/// Those who have read something for a commit that is still to come.
///
/// It is told of each commit on the line, before the next one can begin.
final class ReadTracker: Sendable {
  private let open = Mutex<[TrackedReads]>([])

  func begin() -> TrackedReads {
    let reads = TrackedReads(self)
    open.withLock { $0.append(reads) }
    return reads
  }

  func remove(_ reads: TrackedReads) { open.withLock { $0.removeAll { $0 === reads } } }

  func see(_ publication: Publication) {
    for reads in open.withLock({ $0 }) { reads.see(publication) }
  }
}
