public import PerdureValue

/// The kinds of record that share the ids of a store, under the names that stores keep.
public enum RecordType: String, Sendable, CaseIterable {
  case conversation, entry, task, submission, document
}

/// One record of any kind, by its id.
public struct RecordReference: Sendable, Hashable, CustomStringConvertible {
  public var type: RecordType
  public var id: Int64

  /// Makes a reference.
  public init(_ type: RecordType, _ id: Int64) {
    self.type = type
    self.id = id
  }

  /// Names a conversation.
  public init(_ id: ConversationID) { self.init(.conversation, id.value) }
  /// Names an entry.
  public init(_ id: EntryID) { self.init(.entry, id.value) }
  /// Names a task.
  public init(_ id: TaskID) { self.init(.task, id.value) }
  /// Names a submission.
  public init(_ id: SubmissionID) { self.init(.submission, id.value) }
  /// Names a document.
  public init(_ id: DocumentID) { self.init(.document, id.value) }

  public var description: String { "\(type.rawValue) \(id)" }
}

/// Which value of which document a copy starts from.
public struct CopySource: Sendable, Hashable {
  public var id: DocumentID
  /// The commit after which it is read; absent for the value before the batch.
  public var at: Int64?

  /// Makes a source.
  public init(id: DocumentID, at: Int64?) {
    self.id = id
    self.at = at
  }
}

/// One incarnation of a document without its value.
public struct DocumentHead: Sendable, Equatable {
  public var record: DocumentRecord
  /// The version of its newest revision; absent if it keeps none.
  public var version: Int64?

  /// Makes a head.
  public init(record: DocumentRecord, version: Int64?) {
    self.record = record
    self.version = version
  }
}

/// What must be known about the store before a batch can be judged.
public struct BatchNeeds: Sendable, Equatable {
  /// The ids whose record type is needed.
  public var ids: Set<Int64> = []
  /// The documents whose head is needed, alive or retired.
  public var documents: Set<DocumentID> = []
  /// The addresses whose live incarnation is needed.
  public var addresses: Set<DocumentAddress> = []
  /// The documents whose value is needed.
  public var sources: Set<CopySource> = []

  /// Makes empty needs.
  public init() {}

  /// Finds out what `batch` needs.
  public init(_ batch: Batch) {
    var created: Set<DocumentID> = []
    for write in batch.writes {
      switch write {
      case .conversation(let record): ids.insert(record.id.value)
      case .entry(let record): ids.insert(record.id.value)
      case .task(let record): ids.insert(record.id.value)
      case .submission(let record): ids.insert(record.id.value)
      case .createDocument(let record, _, _):
        created.insert(record.id)
        addresses.insert(record.address)
      case .copyDocument(let record, let source, let at):
        created.insert(record.id)
        addresses.insert(record.address)
        sources.insert(CopySource(id: source, at: at))
      case .changeDocument(let id, _), .retireDocument(let id): documents.insert(id)
      case .remove(let reference):
        ids.insert(reference.id)
        if reference.type == .document, let id = DocumentID(reference.id) { documents.insert(id) }
      }
    }
    documents.subtract(created)
    for id in created { ids.insert(id.value) }
  }

  /// Whether nothing is needed.
  public var isEmpty: Bool {
    ids.isEmpty && documents.isEmpty && addresses.isEmpty && sources.isEmpty
  }
}

/// The answers to `BatchNeeds`; what does not exist is absent.
public struct BatchFacts: Sendable {
  public var types: [Int64: RecordType] = [:]
  public var documents: [DocumentID: DocumentHead] = [:]
  public var current: [DocumentAddress: DocumentID] = [:]
  /// A source that cannot be read (unknown, not alive then, history not kept) is absent.
  public var sources: [CopySource: StoredDocument] = [:]

  /// Makes empty facts.
  public init() {}
}
