package import PerdureModel
import PerdureValue
import Synchronization

/// What those outside may look at, each as a fold over what was published.
///
/// A view is built when the first reader asks for it, on the line and from what lies on disk;
/// later commits reach it when they are on disk too, and it goes with its last reader.
package final class Views: Sendable {
  private struct State {
    var readers = 0
    var unsubscribe: (@Sendable () -> Void)?
  }

  /// A definition as far as a view depends on it.
  private struct Form: Hashable, Sendable {
    var kind: JSONString
    var version: Int64

    init(_ definition: DocumentDefinition) {
      kind = definition.kind
      version = definition.version
    }
  }

  /// A family at one place.
  private struct Family: Hashable, Sendable {
    var kind: JSONString
    var scope: DocumentScope
  }

  private let session: Session
  private let scheduler: Scheduler
  private let conversations = MountTable<ConversationID, [Form], ConversationFold>()
  private let documents = MountTable<DocumentAddress, Form, DocumentFold>()
  private let families = MountTable<Family, Form, FamilyFold>()
  private let graphs = MountTable<Bool, Bool, TaskGraphFold>()
  private let works = MountTable<ConversationID, Bool, AgentEventFold>()
  private let state = Mutex(State())

  init(session: Session, scheduler: Scheduler) {
    self.session = session
    self.scheduler = scheduler
    session.onSeal { [weak self] error in self?.end(WatchEnd(error)) }
    scheduler.followObstacles { [weak self] id, reason in
      self?.graphs.apply(.blocked(id, reason: reason), to: true, at: nil)
    }
  }

  /// How many views are kept up to date.
  package var mountCount: Int {
    conversations.count + documents.count + families.count + graphs.count
      + works.count
  }

  // MARK: What there is

  /// Follows a conversation with every change; an unknown one throws `notFound`.
  ///
  /// The view shows the documents of `mounting` beside the built-in ones.
  package func watch(
    _ id: ConversationID,
    mounting: [DocumentDefinition] = []
  ) async throws -> Watch<ConversationFold> {
    try await found(Watch.make { try await self.attach(id, mounting, $0) }, id)
  }

  /// Follows a conversation by its newest value; an unknown one throws `notFound`.
  ///
  /// The view shows the documents of `mounting` beside the built-in ones.
  package func latest(
    _ id: ConversationID,
    mounting: [DocumentDefinition] = []
  ) async throws -> Latest<ConversationFold> {
    try await found(Latest.make { try await self.attach(id, mounting, $0) }, id)
  }

  /// Follows what a conversation does, commit by commit; an unknown one throws `notFound`.
  package func events(of id: ConversationID) async throws -> AgentEventReader {
    try await found(
      AgentEventReader.make { join in
        try await self.attach(to: self.works, id, true, join) {
          try await self.session.agentEventFold(id)
        }
      },
      id
    )
  }

  /// Follows the document that lives at an address with every change; `nil` if there is none.
  package func watch(
    _ definition: DocumentDefinition,
    at address: DocumentAddress
  ) async throws -> Watch<DocumentFold>? {
    try await Watch.make { try await self.attach(definition, address, $0) }
  }

  /// Follows the document that lives at an address by its newest value; `nil` if there is none.
  package func latest(
    _ definition: DocumentDefinition,
    at address: DocumentAddress
  ) async throws -> Latest<DocumentFold>? {
    try await Latest.make { try await self.attach(definition, address, $0) }
  }

  /// Returns the state of the document that lives at an address; `nil` if there is none.
  package func state(
    _ definition: DocumentDefinition,
    at address: DocumentAddress
  ) async throws -> DocumentState? {
    try await attach(definition, address) { _, _ in { _ in } }.map { DocumentState($0) }
  }

  /// Follows the living members of a family with every change.
  package func watchMembers(
    _ definition: DocumentDefinition,
    in scope: DocumentScope
  ) async throws -> Watch<FamilyFold> {
    try await found(Watch.make { try await self.attach(definition, scope, $0) }, nil)
  }

  /// Follows the living members of a family by their newest values.
  package func latestMembers(
    _ definition: DocumentDefinition,
    in scope: DocumentScope
  ) async throws -> Latest<FamilyFold> {
    try await found(Latest.make { try await self.attach(definition, scope, $0) }, nil)
  }

  /// Follows the live tasks with every change.
  package func watchTasks() async throws -> Watch<TaskGraphFold> {
    try await found(Watch.make { try await self.attachGraph($0) }, nil)
  }

  /// Follows the live tasks by their newest graph.
  package func latestTasks() async throws -> Latest<TaskGraphFold> {
    try await found(Latest.make { try await self.attachGraph($0) }, nil)
  }

  private func found<Reader>(_ reader: Reader?, _ id: ConversationID?) throws -> Reader {
    if let reader { return reader }
    throw PerdureError(.notFound, "conversation \(id.map { "\($0)" } ?? "") does not exist")
  }

  // MARK: Mounts

  private func attach(
    _ id: ConversationID,
    _ mounting: [DocumentDefinition],
    _ join: @escaping Mount<ConversationFold>.Joining
  ) async throws -> Attachment<ConversationFold>? {
    var kinds = Set(ConversationFold.definitions.map { $0.kind })
    for definition in mounting {
      let isNameable = !PathSegment.unsafeKeys.contains(definition.kind)
      guard isNameable, kinds.insert(definition.kind).inserted else {
        throw PerdureError(
          .invalidInput,
          "a view cannot mount '\(definition.kind.string)', or not twice",
          hint: "name each kind of document once, and no built-in one"
        )
      }
      _ = try definition.address(in: .conversation(id), key: definition.isFamily ? "" : nil)
    }
    // The order in which they are named makes no other view.
    let sorted = mounting.sorted { $0.kind.string < $1.kind.string }
    let forms = sorted.map { Form($0) }
    return try await attach(to: conversations, id, forms, join) {
      try await self.session.conversationFold(id, mounting: sorted)
    }
  }

  private func attach(
    _ definition: DocumentDefinition,
    _ address: DocumentAddress,
    _ join: @escaping Mount<DocumentFold>.Joining
  ) async throws -> Attachment<DocumentFold>? {
    // Pinned first, so that it does not leave the cache in between.
    session.documents.pin(address)
    let unpin = Departure { [session] in
      session.documents.unpin(address)
      session.retention.arm()
    }
    do {
      let place = try await attach(to: documents, address, Form(definition), join) {
        try await self.session.storedDocument(definition, at: address).map { DocumentFold($0) }
      }
      guard let place else {
        unpin.run()
        return nil
      }
      return Attachment(
        mount: place.mount,
        leave: {
          place.leave()
          unpin.run()
        }
      )
    } catch {
      unpin.run()
      throw error
    }
  }

  private func attach(
    _ definition: DocumentDefinition,
    _ scope: DocumentScope,
    _ join: @escaping Mount<FamilyFold>.Joining
  ) async throws -> Attachment<FamilyFold>? {
    let family = Family(kind: definition.kind, scope: scope)
    return try await attach(to: families, family, Form(definition), join) {
      FamilyFold(definition.kind, in: scope, try await self.session.members(definition, in: scope))
    }
  }

  private func attachGraph(
    _ join: @escaping Mount<TaskGraphFold>.Joining
  ) async throws -> Attachment<TaskGraphFold>? {
    try await attach(to: graphs, true, true, join) {
      try await self.session.taskGraphFold(blocked: self.scheduler.blocked)
    }
  }

  private func attach<Subject, Form, Value: Fold>(
    to table: MountTable<Subject, Form, Value>,
    _ subject: Subject,
    _ form: Form,
    _ join: Mount<Value>.Joining,
    _ load: () async throws -> Value?
  ) async throws -> Attachment<Value>? {
    let place: (mount: Mount<Value>, reader: Int)? = try await session.observeFlushed { sequence in
      // Counted before it is there, so that the subscription begins with this commit.
      enter()
      do {
        if let place = table.join(subject, as: form, join) { return place }
        if let value = try await load() {
          let mount = Mount(value, at: sequence)
          return (mount, try table.insert(subject, as: form, mount, join).get())
        }
        exit()
        return nil
      } catch {
        exit()
        if let refusal = error as? MountRefusal {
          throw refusal.end.error ?? PerdureError(.closed, "the session is closing")
        }
        throw error
      }
    }
    guard let place else { return nil }
    let departure = Departure { [weak self] in
      table.leave(subject, as: form, place.mount, place.reader)
      self?.exit()
    }
    if Task.isCancelled {
      departure.run()
      throw PerdureError(.cancelled, "the observation was cancelled before it began")
    }
    return Attachment(mount: place.mount, leave: { departure.run() })
  }

  private func enter() {
    state.withLock { state in
      state.readers += 1
      guard state.unsubscribe == nil else { return }
      state.unsubscribe = session.publications.subscribe { [weak self] in self?.observe($0) }
    }
  }

  private func exit() {
    let unsubscribe = state.withLock { state -> (@Sendable () -> Void)? in
      state.readers -= 1
      guard state.readers == 0 else { return nil }
      defer { state.unsubscribe = nil }
      return state.unsubscribe
    }
    unsubscribe?()
  }

  private func observe(_ publication: Publication) {
    var touched: Set<ConversationID> = []
    var addresses: Set<DocumentAddress> = []
    var touchedFamilies: Set<Family> = []
    var touchesTasks = false
    var active: Set<ConversationID> = []
    for change in publication.changes {
      switch change {
      case .entry(let record): touched.insert(record.conversationId)
      case .document(let record, _, _, _):
        addresses.insert(record.address)
        if record.address.key != nil {
          touchedFamilies.insert(Family(kind: record.address.kind, scope: record.address.scope))
        }
        if case .conversation(let id) = record.address.scope { touched.insert(id) }
      case .task(let record):
        touchesTasks = true
        active.insert(record.conversationId)
      case .conversation: touchesTasks = true
      case .submission(let record): active.insert(record.conversationId)
      case .deletion(let id):
        touched.insert(id)
        active.insert(id)
      // A copy belongs to a conversation that this very commit creates, so nobody watches it yet.
      case .documentCopy, .removal: break
      }
    }
    let sequence = publication.sequence
    for address in addresses { documents.apply(publication, to: address, at: sequence) }
    for family in touchedFamilies { families.apply(publication, to: family, at: sequence) }
    for id in touched { conversations.apply(publication, to: id, at: sequence) }
    for id in active.union(touched) { works.apply(publication, to: id, at: sequence) }
    if touchesTasks { graphs.apply(.publication(publication), to: true, at: sequence) }
  }

  private func end(_ end: WatchEnd) {
    conversations.end(end)
    documents.end(end)
    families.end(end)
    graphs.end(end)
    works.end(end)
  }
}

/// What is done once when a reader leaves.
private final class Departure: Sendable {
  private let body: Mutex<(@Sendable () -> Void)?>

  init(_ body: @escaping @Sendable () -> Void) { self.body = Mutex(body) }

  func run() {
    let body = body.withLock { body in
      defer { body = nil }
      return body
    }
    body?()
  }
}
