package import PerdureModel
package import PerdureValue

/// A conversation's view, and what it takes to carry it from commit to commit.
package struct ConversationFold: Fold {
  /// Which revision of a document the view holds.
  private struct Mounted: Equatable {
    var id: DocumentID
    var version: Int64
  }

  /// The documents that a view shows, in the order in which they are created.
  package static let definitions: [DocumentDefinition] = [.live, .inbox, .usage, .provider, .agent]

  package private(set) var value: ConversationView
  package private(set) var end: WatchEnd?
  private var kinds: Set<JSONString>
  private var mounted: [JSONString: Mounted] = [:]
  private var families: [JSONString: FamilyFold] = [:]

  /// Makes the view of a conversation with these visible entries in ascending order, from the start
  /// of the active range at the latest, and these documents.
  ///
  /// It follows the built-in documents and those of `mounting`; a family is shown as an object with
  /// the values by key.
  package init(
    _ conversation: ConversationRecord,
    head: EntryRecord?,
    entries: [EntryRecord],
    documents: [StoredDocument],
    mounting: [DocumentDefinition] = []
  ) {
    let shown = Self.definitions + mounting
    kinds = Set(shown.lazy.filter { !$0.isFamily }.map { $0.kind })
    var active: [EntryRecord] = []
    if let head {
      let start = head.head ?? head.id
      active = [head] + entries.filter { $0.head == nil && $0.id >= start }
    } else {
      active = entries
    }
    value = ConversationView(conversation: conversation, entries: active, documents: [:])
    for definition in shown where definition.isFamily {
      let kind = definition.kind
      let members = documents.filter { $0.record.address.kind == kind }
      let family = FamilyFold(kind, in: .conversation(conversation.id), members)
      families[kind] = family
      value.documents[kind] = family.json
    }
    for document in documents where document.record.address.key == nil {
      let kind = document.record.address.kind
      value.documents[kind] = document.value
      mounted[kind] = Mounted(id: document.record.id, version: document.version)
    }
  }

  package var json: JSON { value.json }

  package mutating func apply(_ publication: Publication) -> [Operation] {
    for case .deletion(value.conversation.id) in publication.changes {
      // What it showed last stays what it shows.
      end = .deleted
      return []
    }
    var operations: [Operation] = []
    for case .document(let record, let version, let new, let changes) in publication.changes {
      guard record.address.scope == .conversation(value.conversation.id) else { continue }
      let kind = record.address.kind
      if record.address.key == nil, kinds.contains(kind) {
        operations += apply(record, version, new, changes)
      } else if let changes = families[kind]?.apply(record, version, new, changes) {
        value.documents[kind] = families[kind]?.json
        operations += changes.map { $0.under(["docs", .key(kind)]) }
      }
    }
    for case .entry(let entry) in publication.changes
    where entry.conversationId == value.conversation.id {
      operations.append(append(entry))
    }
    return operations
  }

  private mutating func apply(
    _ record: DocumentRecord,
    _ version: Int64?,
    _ new: JSON?,
    _ changes: [Operation]
  ) -> [Operation] {
    let kind = record.address.kind
    let path: [PathSegment] = ["docs", .key(kind)]
    guard let version, let new else {
      // The end of an earlier incarnation says nothing of the one that took its place.
      guard mounted[kind]?.id == record.id else { return [] }
      mounted[kind] = nil
      value.documents[kind] = nil
      return [.delete(path)]
    }
    let next = Mounted(id: record.id, version: version)
    let isSame = mounted[kind] == next && !changes.isEmpty
    mounted[kind] = next
    value.documents[kind] = new
    return isSame ? changes.map { $0.under(path) } : [.set(path, new)]
  }

  private mutating func append(_ entry: EntryRecord) -> Operation {
    let place = entry.head == nil ? value.entries.count : 0
    let removed = value.entries.advance(by: entry)
    return .splice(["entries"], at: place, remove: removed, insert: [entry.json])
  }
}
