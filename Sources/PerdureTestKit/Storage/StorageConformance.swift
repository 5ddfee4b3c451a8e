import PerdureModel
import PerdureValue

/// What every store must do, as cases that a test framework of any kind can run.
///
///     for test in StorageConformance.cases {
///       let harness = try await StorageHarness { try await DirectStore(try await open()) }
///       try await test.run(harness)
///       await harness.close()
///     }
///
/// Each case needs an empty store of its own. A case that fails throws, and the error says what
/// differed. Run each twice, the second time with `reopensAfterCommits`.
public enum StorageConformance {
  /// One claim about a store.
  public struct Case: Sendable, CustomStringConvertible {
    /// A sentence that says what is claimed.
    public let name: String
    /// Checks it on an empty store.
    public let run: @Sendable (StorageHarness) async throws -> Void

    public var description: String { name }
  }

  /// What a backend must do, and a layer in front of one as well.
  public static let cases: [Case] =
    tableCases + scanCases + forkCases + taskCases + submissionCases + documentCases
    + documentRuleCases + copyCases + identityCases + extraCases + removalCases

  /// What only a bare backend can be asked to do.
  public static let backendCases: [Case] = groupCases + removalBackendCases
}

/// How a store differed from what is claimed.
public struct ConformanceFailure: Error, CustomStringConvertible {
  public let description: String

  init(_ description: String) { self.description = description }
}

/// Throws if the two differ.
func expect<Value: Equatable>(_ actual: Value, _ expected: Value, _ what: String) throws {
  guard actual != expected else { return }
  throw ConformanceFailure("\(what): got \(actual), wanted \(expected)")
}

/// Throws unless `body` throws a `PerdureError` with this code whose sentence holds `text`.
func expectError(
  _ code: PerdureError.Code?,
  _ text: String,
  _ what: String,
  _ body: () async throws -> Void
) async throws {
  do {
    try await body()
  } catch let error as PerdureError {
    let isExpected = code.map { $0 == error.code } ?? true
    guard isExpected, error.description.lowercased().contains(text.lowercased()) else {
      throw ConformanceFailure("\(what): got the error '\(error.code.rawValue): \(error)'")
    }
    return
  }
  throw ConformanceFailure("\(what): no error, wanted '\(text)'")
}

/// An id that a case writes out.
func id<Record>(_ value: Int64) throws -> Identifier<Record> {
  guard let id = Identifier<Record>(value) else {
    throw ConformanceFailure("\(value) is no id")
  }
  return id
}

/// Every item of a scan, read page by page through cursors that travel as text.
func all<Item>(
  limit: Int,
  order: ScanOrder? = nil,
  _ scan: (PageRequest) async throws -> Page<Item>
) async throws -> [Item] {
  var items: [Item] = []
  var request = PageRequest(limit: limit, order: order)
  while true {
    let page = try await scan(request)
    guard page.items.count <= limit else {
      throw ConformanceFailure("a page holds \(page.items.count) items with the limit \(limit)")
    }
    items += page.items
    guard let next = page.next else { return items }
    let json = try JSON(parsing: next.json.compactText)
    request = PageRequest(
      limit: limit,
      cursor: try Cursor(json: json, defaultOrder: order ?? .ascending)
    )
  }
}

extension StorageHarness {
  /// Commits the root conversation and returns its id.
  func root() async throws -> ConversationID {
    try await commit(.conversation(ConversationRecord(id: .root)))
    return .root
  }
}

extension EntryRecord {
  init(_ id: EntryID, in conversation: ConversationID = .root, data: JSON? = nil) {
    self.init(id: id, conversationId: conversation, kind: "test", data: data)
  }
}

extension TaskRecord {
  init(_ id: TaskID, kind: JSONString = "test", state: TaskState = .pending(checkpoint: .null)) {
    self.init(
      id: id,
      conversationId: .root,
      kind: kind,
      version: 1,
      input: ["n": 1],
      state: state
    )
  }
}

extension SubmissionRecord {
  init(
    _ id: SubmissionID,
    in conversation: ConversationID = .root,
    requestId: JSONString? = nil,
    kind: Kind = .input,
    state: State = .queued
  ) {
    self.init(
      id: id,
      conversationId: conversation,
      requestId: requestId,
      kind: kind,
      state: state
    )
  }
}

extension DocumentRecord {
  /// A record of a definition with this scope and history.
  init(
    _ id: DocumentID,
    _ kind: JSONString,
    _ scope: DocumentScope = .session,
    key: JSONString? = nil,
    history: DocumentHistory? = nil,
    fork: DocumentFork? = nil
  ) {
    self.init(
      id: id,
      address: DocumentAddress(kind: kind, scope: scope, key: key),
      history: history,
      fork: fork,
      createdAt: 0
    )
  }

  /// A record that keeps every revision.
  static func rewindable(
    _ id: DocumentID,
    _ kind: JSONString,
    in conversation: ConversationID = .root
  ) -> DocumentRecord {
    DocumentRecord(id, kind, .conversation(conversation), history: .rewindable, fork: .asOf)
  }
}

/// Runs all cases for every store, each on one that `open` makes, plainly and reopened after each
/// commit; throws what differed first.
///
/// `open` is given a number: the same one means the same store, opened anew.
public func runStorageConformance(
  open: @escaping @Sendable (_ store: Int) async throws -> any ConformanceStore
) async throws {
  for (round, reopens) in [false, true].enumerated() {
    for (place, test) in StorageConformance.cases.enumerated() {
      let number = round * StorageConformance.cases.count + place
      let harness = try await StorageHarness(reopensAfterCommits: reopens) {
        try await open(number)
      }
      do {
        try await test.run(harness)
      } catch {
        await harness.close()
        throw ConformanceFailure("\(test.name): \(error)")
      }
      await harness.close()
    }
  }
}
