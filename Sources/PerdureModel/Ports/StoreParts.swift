package import PerdureValue

/// The kinds of part that a store has, in the order in which a copy of it is written.
package enum StoreSection: String, Sendable, CaseIterable, Comparable {
  case conversation, entry, task, submission, document, revision, extra

  private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }

  package static func < (left: StoreSection, right: StoreSection) -> Bool {
    left.rank < right.rank
  }
}

/// One record of a store, one revision of a document, or one fact beside the records.
///
/// The parts of a store and its counters are all that it holds.
package enum StorePart: Sendable, Equatable {
  case conversation(ConversationRecord)
  case entry(EntryLookup)
  case task(TaskRecord)
  case submission(SubmissionRecord)
  /// An incarnation, alive or retired, without its revisions.
  case document(DocumentRecord)
  case revision(DocumentID, sequence: Int64, DocumentContent)
  case extra(scope: String, id: Int64, value: JSON)

  package var section: StoreSection { place.section }

  /// Where it stands among all parts.
  package var place: StorePlace {
    switch self {
    case .conversation(let record): StorePlace(.conversation, id: record.id.value)
    case .entry(let found): StorePlace(.entry, id: found.entry.id.value)
    case .task(let record): StorePlace(.task, id: record.id.value)
    case .submission(let record): StorePlace(.submission, id: record.id.value)
    case .document(let record): StorePlace(.document, id: record.id.value)
    case .revision(let id, let sequence, _):
      StorePlace(.revision, id: id.value, sequence: sequence)
    case .extra(let scope, let id, _): StorePlace(.extra, scope: scope, id: id)
    }
  }

  /// Which type of record has this part's id; absent for what has no id of its own.
  package var recordType: RecordType? { RecordType(rawValue: section.rawValue) }
}

/// The place of a part: parts ascend by section, scope, id and sequence number.
package struct StorePlace: Sendable, Comparable {
  package var section: StoreSection
  package var scope: String
  package var id: Int64
  package var sequence: Int64

  /// Makes a place.
  package init(_ section: StoreSection, scope: String = "", id: Int64, sequence: Int64 = 0) {
    self.section = section
    self.scope = scope
    self.id = id
    self.sequence = sequence
  }

  // Bytes, as SQLite compares them; two spellings of one letter are two scopes.
  package static func == (left: StorePlace, right: StorePlace) -> Bool {
    left.section == right.section && left.scope.utf8.elementsEqual(right.scope.utf8)
      && left.id == right.id && left.sequence == right.sequence
  }

  package static func < (left: StorePlace, right: StorePlace) -> Bool {
    if left.section != right.section { return left.section < right.section }
    if !left.scope.utf8.elementsEqual(right.scope.utf8) {
      return left.scope.utf8.lexicographicallyPrecedes(right.scope.utf8)
    }
    return (left.id, left.sequence) < (right.id, right.sequence)
  }
}

/// A store that can be read from its first part to its last.
package protocol StoreSnapshot: StorageReads {
  /// Returns the counters.
  func counters() async throws -> StoreCounters

  /// Returns at most `limit` parts of a section, ascending, behind `after`.
  func parts(
    _ section: StoreSection,
    after: StorePlace?,
    limit: Int
  ) async throws -> [StorePart]

  /// Releases it.
  func close() async
}

extension StoreSnapshot {
  /// Calls `body` with all parts, page by page, in their order.
  package func forEachPage(
    of size: Int = 256,
    _ body: ([StorePart]) async throws -> Void
  ) async throws {
    for section in StoreSection.allCases {
      var after: StorePlace?
      while true {
        let page = try await parts(section, after: after, limit: size)
        guard let last = page.last else { break }
        try await body(page)
        guard page.count == size else { break }
        after = last.place
      }
    }
  }
}

/// A new store that is filled with parts, and exists once it is finished.
package protocol StoreBuilder: Sendable {
  /// Adds parts, which follow those that were added before in the order of their places.
  ///
  /// Throws `StorePartFailure` for a part that cannot stand with those before it.
  func add(_ parts: [StorePart]) async throws

  /// Gives the store its counters and its name.
  func finish(_ counters: StoreCounters) async throws

  /// Leaves nothing behind.
  func abandon() async
}

/// Why one of several parts was refused.
package struct StorePartFailure: Error, Sendable {
  /// Its place among the parts that were given together.
  package var index: Int
  package var message: String

  /// Makes a failure.
  package init(index: Int, _ message: String) {
    self.index = index
    self.message = message
  }
}
