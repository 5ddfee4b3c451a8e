import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct LargeDocumentTests {
  struct Book: Codable, Sendable {
    var text: String
    var lines: [String]
  }

  private static let book = Document("app.book", scope: .session) { _ in
    Book(
      text: String(repeating: "0123456789abcdef", count: 65_536),
      lines: (0..<2_000).map { "line \($0)" }
    )
  }

  /// Remembers what was written last.
  private final class LastBatch: ForwardingStorage {
    let base: any Storage = MemoryStorage()
    private let last = Mutex<Batch?>(nil)

    /// The text of the operations of the last commit; `nil` if it was no delta.
    var operations: String? {
      guard
        case .changeDocument(_, .delta(_, let operations))? = last.withLock({ $0 })?.writes.first
      else { return nil }
      return JSON.array(operations.map { $0.json }).compactText
    }

    func apply(
      _ group: [Batch],
      expecting expected: StoreCounters,
      nextId: Int64
    ) async throws {
      last.withLock { $0 = group.last }
      try await base.apply(group, expecting: expected, nextId: nextId)
    }
  }

  private func open() async throws -> (Harness, LastBatch) {
    let storage = LastBatch()
    let harness = try await Harness.open(.custom(storage), models: ScriptedModel { _ in [] })
    try await harness.commit { tx in try await tx.edit(Self.book) { _ in } }
    return (harness, storage)
  }

  @Test func `a word that a typed update appends to a megabyte is written as that word`()
    async throws
  {
    let (harness, storage) = try await open()
    try await harness.commit { tx in try await tx.update(Self.book) { $0.text += " word" } }
    #expect(storage.operations == #"[["a",["text"]," word"]]"#)
    try await harness.close()
  }

  @Test func `a word that an editor appends to a megabyte is written as that word`()
    async throws
  {
    let (harness, storage) = try await open()
    try await harness.commit { tx in
      try await tx.edit(Self.book) { try $0.append(" word", to: ["text"]) }
    }
    #expect(storage.operations == #"[["a",["text"]," word"]]"#)
    #expect(try await harness.value(Self.book)?.text.hasSuffix("f word") == true)
    try await harness.close()
  }

  @Test func `a typed update of a long list is written by what it changed`() async throws {
    let (harness, storage) = try await open()
    try await harness.commit { tx in
      try await tx.update(Self.book) { book in
        book.lines.remove(at: 1_000)
        book.lines.swapAt(3, 1_500)
        book.lines.append("last")
      }
    }
    let operations = try #require(storage.operations)
    #expect(operations.utf8.count < 1_024, "\(operations)")
    let lines = try await harness.value(Self.book)?.lines
    #expect(lines?.count == 2_000)
    #expect(lines?[3] == "line 1501")
    try await harness.close()
  }

  @Test func `dictionaries that move within a list keep their members in order`() async throws {
    let storage = LastBatch()
    let harness = try await Harness.open(.custom(storage), models: ScriptedModel { _ in [] })
    let table = Document("app.table", scope: .session) { _ in
      [
        "rows": (0..<200).map { row in
          Dictionary(uniqueKeysWithValues: (0..<8).map { ("column \($0)", row * 8 + $0) })
        }
      ]
    }
    try await harness.commit { tx in try await tx.edit(table) { _ in } }
    try await harness.commit { tx in
      try await tx.update(table) { value in
        value["rows"]?.removeFirst()
        value["rows"]?[100]["column 3"] = -1
      }
    }
    #expect(
      storage.operations == #"[["p",["rows"],0,1,[]],["s",["rows",100,"column 3"],-1]]"#
    )
    try await harness.close()
  }
}
