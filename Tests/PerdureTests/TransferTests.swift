import Foundation
import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Stores written as lines and made of them.
@Suite struct TransferTests {
  private let folder = StoreFolder()

  /// Random commits over few ids, with gaps, forks, families, retired documents and odd strings.
  private func fill(_ storage: any Storage, seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    var random = RandomParts { UInt64.random(in: 0..<UInt64($0), using: &generator) }
    var counters = try await storage.counters()
    for _ in 0..<120 {
      let batch = random.batch(counters.nextSequence, counters.nextId)
      let next = max(counters.nextId, random.greatest + 1)
      do {
        try await storage.apply([batch], expecting: counters, nextId: next)
        counters = StoreCounters(nextSequence: batch.sequence + 1, nextId: next)
      } catch let error as PerdureError where error.code == .invalidBatch { continue }
    }
    // Ids that were given out and never used, and a commit without a trace.
    let empty = Batch(sequence: counters.nextSequence, writes: [], at: 0)
    try await storage.apply([empty], expecting: counters, nextId: counters.nextId + 7)
  }

  private func open(_ site: StoreSite) async throws -> any Storage {
    switch site.format {
    case .sqlite: try await SQLiteStorage.open(path: site.path, durability: .normal)
    case .jsonl: try await JSONLStorage.open(path: site.path, durability: .normal)
    }
  }

  private func export(_ site: StoreSite) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    _ = try await StoreExport.run(site) {
      bytes += $0
      return true
    }
    return bytes
  }

  @Test(arguments: [StoreFormat.sqlite, .jsonl], 1...12)
  func `a store that travels comes back byte for byte`(
    _ format: StoreFormat,
    _ seed: Int
  ) async throws {
    print("seed \(seed)")
    let first = folder.site("first", format)
    let storage = try await open(first)
    try await fill(storage, seed: UInt64(seed))
    await storage.close()
    let text = try await export(first)
    #expect(text.count > 2_000)
    folder.write(text, to: "export")
    // From kind to kind and back.
    var last = "export"
    for (number, format) in [StoreFormat.jsonl, .sqlite, .sqlite, .jsonl, .jsonl].enumerated() {
      let site = folder.site("copy\(number)", format)
      _ = try await StoreImport.run(folder.path(last), into: site)
      let copy = try await export(site)
      let isSame = copy == text
      #expect(isSame)
      // A copy is a store like any other.
      let storage = try await open(site)
      let counters = try await storage.counters()
      let batch = Batch(sequence: counters.nextSequence, writes: [], at: 0)
      try await storage.apply([batch], expecting: counters, nextId: counters.nextId)
      await storage.close()
      last = "export\(number)"
      folder.write(copy, to: last)
    }
  }

  @Test func `memory, SQLite and JSON lines export the same`() async throws {
    let memory = MemoryStorage()
    try await fill(memory, seed: 4)
    var text: [UInt8] = []
    _ = try await StoreExport.run(try memory.snapshot()) {
      text += $0
      return true
    }
    for format in [StoreFormat.sqlite, .jsonl] {
      let site = folder.site(format.rawValue, format)
      let storage = try await open(site)
      try await fill(storage, seed: 4)
      await storage.close()
      let isSame = try await export(site) == text
      #expect(isSame, "\(format)")
    }
  }

  // MARK: Bad input

  private static let lines = [
    #"{"format":"perdure-export","version":1,"nextId":9,"nextSeq":4}"#,
    #"{"type":"conversation","record":{"id":1}}"#,
    #"{"type":"entry","seq":2,"record":{"id":2,"conversationId":1,"kind":"k"}}"#,
    #"{"type":"document","record":{"id":3,"kind":"d","scope":{"kind":"session"},"createdAt":1}}"#,
    #"{"type":"revision","document":3,"seq":1,"content":{"kind":"base","version":1,"value":{}}}"#,
  ]

  /// A change of those lines, and where the import ends then.
  struct Fault: Sendable, CustomTestStringConvertible {
    var line: Int
    var text: String
    var sentence: String

    init(_ line: Int, _ text: String, _ sentence: String) {
      (self.line, self.text, self.sentence) = (line, text, sentence)
    }

    var testDescription: String { sentence }
  }

  static let faults: [Fault] = [
    Fault(1, "{}", "it is no export of a store"),
    Fault(1, #"{"format":"perdure-export","version":2}"#, "its version is 2"),
    Fault(
      1,
      #"{"format":"perdure-export","version":1,"nextId":1,"nextSeq":4}"#,
      "'nextId' is not a number"
    ),
    Fault(2, "nonsense", "it is not JSON"),
    Fault(2, #"{"type":"egg"}"#, "its type is 'egg'"),
    Fault(2, #"{"type":"conversation","record":{"id":0}}"#, "conversation 0: 'id' is not an id"),
    Fault(2, #"{"type":"conversation","record":{"id":9}}"#, "the id 9 is not below 'nextId'"),
    Fault(2, #"{"type":"conversation","record":{"id":2}}"#, "the id 2 belongs to another record"),
    Fault(
      3,
      #"{"type":"entry","seq":4,"record":{"id":2,"conversationId":1,"kind":"k"}}"#,
      "the sequence number 4 is not between"
    ),
    Fault(
      4,
      #"{"type":"entry","seq":2,"record":{"id":2,"conversationId":1,"kind":"k"}}"#,
      "does not come behind"
    ),
    Fault(
      5,
      #"{"type":"revision","document":4,"seq":1,"content":{"kind":"base","version":1,"value":1}}"#,
      "the document 4 of this revision is not there"
    ),
    Fault(
      5,
      #"{"type":"revision","document":3,"seq":1,"content":{"kind":"delta","version":1,"ops":[]}}"#,
      "begin without a base"
    ),
    Fault(
      5,
      #"{"type":"document","record":{"id":4,"kind":"d","scope":{"kind":"session"},"createdAt":1}}"#,
      "live at one address"
    ),
  ]

  private static let end = [
    #"{"type":"end","counts":{"conversation":1,"entry":1,"task":0,"submission":0,"document":1,"#,
    #""revision":1,"extra":0},"sha256":""#,
  ].joined()

  private func complete(_ lines: [String]) async throws -> [UInt8] {
    let body = lines.map { $0 + "\n" }.joined()
    let digest = try ContentDigest()
    try digest.add(Array(body.utf8))
    return Array((body + Self.end + (try digest.end()) + "\"}\n").utf8)
  }

  private func error(_ text: [UInt8], _ format: StoreFormat) async -> String {
    folder.write(text, to: "bad")
    do {
      _ = try await StoreImport.run(folder.path("bad"), into: folder.site("bad-store", format))
      return "no error"
    } catch {
      return "\(error)"
    }
  }

  @Test func `an export that people can write is imported`() async throws {
    let text = try await complete(Self.lines)
    #expect(await error(text, .jsonl) == "no error")
    #expect(try await export(folder.site("bad-store", .jsonl)) == text)
  }

  @Test(arguments: faults, [StoreFormat.sqlite, .jsonl])
  func `a bad line is named`(_ fault: Fault, _ format: StoreFormat) async throws {
    var lines = Self.lines
    lines[fault.line - 1] = fault.text
    let sentence = await error(try await complete(lines), format)
    // Two records of one id: the second is the one that is refused.
    let line = fault.sentence.contains("belongs to another") ? 3 : fault.line
    #expect(sentence.contains("line \(line) of "), "\(sentence)")
    #expect(sentence.contains(fault.sentence), "\(sentence)")
    #expect(folder.names == ["bad"])
  }

  @Test func `an export that is cut off is refused wherever it ends`() async throws {
    let text = try await complete(Self.lines)
    for count in stride(from: 0, to: text.count - 1, by: 7) {
      let sentence = await error(Array(text.prefix(count)), .sqlite)
      #expect(sentence.contains("is cut off") || sentence.contains("is no export"), "\(sentence)")
    }
    #expect(folder.names == ["bad"])
  }

  @Test func `a changed byte is noticed`() async throws {
    let text = try await complete(Self.lines)
    let changed = String(decoding: text, as: UTF8.self)
      .replacingOccurrences(of: #""kind":"k""#, with: #""kind":"l""#)
    #expect(await error(Array(changed.utf8), .sqlite).contains("digest"))
    #expect(await error(text + [10], .sqlite).contains("behind the line that ends"))
  }

  @Test(arguments: [StoreFormat.sqlite, .jsonl])
  func `nothing is overwritten`(_ format: StoreFormat) async throws {
    folder.write(Array("mine".utf8), to: "bad-store")
    let sentence = await error(try await complete(Self.lines), format)
    #expect(sentence.contains("bad-store exists already"), "\(sentence)")
    #expect(folder.names == ["bad", "bad-store"])
  }
}

/// A folder of one test, removed with it.
final class StoreFolder: Sendable {
  private let root = "/tmp/perdure-stores-\(UUID().uuidString)"

  init() {
    try? FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: root) }

  func path(_ name: String) -> String { root + "/" + name }

  func site(_ name: String, _ format: StoreFormat) -> StoreSite {
    StoreSite(path: path(name), format: format)
  }

  func write(_ bytes: [UInt8], to name: String) {
    _ = FileManager.default.createFile(atPath: path(name), contents: Data(bytes))
  }

  func bytes(of name: String) -> [UInt8] {
    FileManager.default.contents(atPath: path(name)).map { [UInt8]($0) } ?? []
  }

  /// What lies in it, but for lock files of stores.
  var names: [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).sorted()
  }
}

/// Writes of all kinds that often fit each other.
struct RandomParts {
  private(set) var greatest: Int64 = 0
  private var next: (Int) -> UInt64

  init(_ next: @escaping (Int) -> UInt64) { self.next = next }

  private mutating func number(_ bound: Int64) -> Int64 { Int64(next(Int(bound))) }

  /// Strings that are easily spoilt on the way.
  private static let words: [JSONString] = {
    let texts = [#""a""#, #""é""#, #""\ud800""#, #""\udc00x""#, #""""#, "\"\\u0000\\n\"", #""👩‍🚀""#]
    return texts.compactMap { try? JSON(parsing: $0).string }
  }()

  private mutating func word() -> JSONString {
    Self.words[Int(number(Int64(Self.words.count)))]
  }

  mutating func batch(_ sequence: Int64, _ nextId: Int64) -> Batch {
    var id = nextId + number(3)
    var writes: [StorageWrite] = sequence == 1 ? [.conversation(ConversationRecord(id: .root))] : []
    for _ in 0...number(4) {
      writes.append(write(id))
      id += 1 + number(2)
    }
    greatest = id
    let extras =
      number(2) == 0
      ? [
        ExtraWrite(
          scope: ["e\u{301}", "é", "entry", "Z"][Int(number(4))],
          id: number(5) - 1,
          value: number(4) == 0 ? nil : .string(word())
        )
      ] : []
    return Batch(sequence: sequence, writes: writes, extras: extras, at: 0)
  }

  private mutating func write(_ id: Int64) -> StorageWrite {
    let old = max(1, id - 1 - number(40))
    switch number(11) {
    case 0:
      let parent = ConversationRecord.Parent(conversationId: .root, at: .known(old))
      return .conversation(
        ConversationRecord(id: .known(id), parent: number(2) == 0 ? parent : nil)
      )
    case 1, 2:
      return .entry(
        EntryRecord(
          id: .known(id),
          conversationId: .root,
          kind: "k",
          model: [["role": "user", "content": .string(word())]],
          data: .double(Double(number(99)) / 7),
          head: number(5) == 0 ? .known(old) : nil,
          byTaskId: number(3) == 0 ? .known(old) : nil
        )
      )
    case 3: return task(id)
    case 4: return task(old)
    case 5:
      return .submission(
        SubmissionRecord(
          id: .known(number(2) == 0 ? id : old),
          conversationId: .root,
          requestId: number(2) == 0 ? word() : nil,
          kind: .input,
          state: number(2) == 0 ? .queued : .unanswered(reason: "r", detail: nil, entry: nil)
        )
      )
    case 6, 7: return .createDocument(record(id), version: 1, value: ["n": .string(word())])
    case 8: return .changeDocument(.known(old), .base(version: 1 + number(2), value: ["n": 0]))
    case 9:
      let operations: [PerdureValue.Operation] = [.set(["n"], .int(number(9)))]
      return .changeDocument(.known(old), .delta(version: 1, operations: operations))
    default: return .retireDocument(.known(old))
    }
  }

  private mutating func task(_ id: Int64) -> StorageWrite {
    let state: TaskState =
      number(2) == 0
      ? .running(checkpoint: .string(word())) : .terminal(.completed(result: .null))
    return .task(
      TaskRecord(
        id: .known(id),
        conversationId: .root,
        kind: word(),
        version: 1,
        input: .null,
        state: state
      )
    )
  }

  private mutating func record(_ id: Int64) -> DocumentRecord {
    let scope: DocumentScope =
      [.session, .conversation(.root), .task(.known(1 + number(3)))][Int(number(3))]
    let isShared = scope.kind == "conversation"
    return DocumentRecord(
      id: .known(id),
      address: DocumentAddress(
        kind: word(),
        scope: scope,
        key: number(2) == 0 ? word() : nil
      ),
      history: isShared ? (number(2) == 0 ? .rewindable : .latest) : nil,
      fork: isShared ? .current : nil,
      createdAt: 0
    )
  }
}
