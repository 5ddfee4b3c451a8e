import PerdureModel

/// What must hold of the parts of an import, each after those before it.
///
/// Records may refer to others that are not there: retention removes records too.
struct ImportRules {
  private struct Incarnation {
    var isRewindable: Bool
    var createdAt: Int64
    var retiredAt: Int64?
    var version: Int64?
  }

  private let counters: StoreCounters
  private(set) var counts: [StoreSection: Int] = [:]
  private var last: StorePlace?
  private var documents: [DocumentID: Incarnation] = [:]
  private var living: [DocumentAddress: DocumentID] = [:]

  init(_ counters: StoreCounters) { self.counters = counters }

  /// Takes the next part, or throws one clause about it.
  mutating func add(_ part: StorePart) throws {
    let place = part.place
    if let last, place <= last {
      throw ExportLine.bad(
        "its \(place.section.rawValue) \(place.id) does not come behind the line before it"
      )
    }
    last = place
    counts[place.section, default: 0] += 1
    if part.recordType != nil {
      guard place.id < counters.nextId else {
        throw ExportLine.bad("the id \(place.id) is not below 'nextId', \(counters.nextId)")
      }
      guard counters.nextSequence > 1 else {
        throw ExportLine.bad("there is a record, and 'nextSeq' says that nothing was committed")
      }
    }
    switch part {
    case .conversation, .task, .submission, .extra: break
    case .entry(let found): try check(found.commitSequence)
    case .document(let record): try add(record)
    case .revision(let id, let sequence, let content): try add(id, sequence, content)
    }
  }

  private func check(_ sequence: Int64) throws {
    guard sequence >= 1, sequence < counters.nextSequence else {
      throw ExportLine.bad(
        "the sequence number \(sequence) is not between 0 and 'nextSeq', \(counters.nextSequence)"
      )
    }
  }

  private mutating func add(_ record: DocumentRecord) throws {
    try check(record.createdAt)
    if let retired = record.retiredAt {
      try check(retired)
      guard record.createdAt <= retired else {
        throw ExportLine.bad("the document \(record.id) was retired before it was created")
      }
    } else if let other = living.updateValue(record.id, forKey: record.address) {
      throw ExportLine.bad("the documents \(other) and \(record.id) live at one address")
    }
    documents[record.id] = Incarnation(
      isRewindable: !record.isCurrentOnly,
      createdAt: record.createdAt,
      retiredAt: record.retiredAt
    )
  }

  private mutating func add(
    _ id: DocumentID,
    _ sequence: Int64,
    _ content: DocumentContent
  ) throws {
    guard var document = documents[id] else {
      throw ExportLine.bad("the document \(id) of this revision is not there")
    }
    guard sequence >= document.createdAt, sequence <= document.retiredAt ?? Int64.max else {
      throw ExportLine.bad("the document \(id) did not live in the commit \(sequence)")
    }
    try check(sequence)
    switch content {
    case .delta(let version, _):
      guard let before = document.version else {
        throw ExportLine.bad("the revisions of the document \(id) begin without a base")
      }
      guard version == before else {
        throw ExportLine.bad("the document \(id) changes its version without a base")
      }
    case .base(let version, _):
      if document.version == nil, document.isRewindable, sequence != document.createdAt {
        throw ExportLine.bad("the document \(id) lacks the value with which it was created")
      }
      document.version = version
    }
    documents[id] = document
  }

  /// Checks what only the end shows.
  func end(_ counts: [StoreSection: Int]) throws {
    for section in StoreSection.allCases {
      let (found, said) = (self.counts[section] ?? 0, counts[section] ?? 0)
      guard found == said else {
        throw ExportLine.bad(
          "it counts \(said) lines of the type \(section.rawValue), not \(found)"
        )
      }
    }
    for (id, document) in documents.sorted(by: { $0.key < $1.key })
    where document.version == nil && (document.isRewindable || document.retiredAt == nil) {
      throw ExportLine.bad("the document \(id) has no value")
    }
  }
}
