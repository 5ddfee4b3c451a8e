import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct JSONLDamageTests {
  /// A change of one file, and what is said about it.
  struct Damage: Sendable, CustomTestStringConvertible {
    let file: String
    let place: String
    let text: String
    let change: @Sendable ([String]) -> [String]

    init(
      _ file: String,
      _ place: String,
      _ text: String,
      _ change: @escaping @Sendable ([String]) -> [String]
    ) {
      self.file = file
      self.place = place
      self.text = text
      self.change = change
    }

    var testDescription: String { "\(place): \(text)" }
  }

  private static func line(_ number: Int, _ text: String) -> @Sendable ([String]) -> [String] {
    { lines in lines.enumerated().map { $0.offset + 1 == number ? text : $0.element } }
  }

  private static func edit(
    _ number: Int,
    _ old: String,
    _ new: String
  ) -> @Sendable ([String]) -> [String] {
    { lines in
      lines.enumerated().map {
        $0.offset + 1 == number ? $0.element.replacing(old, with: new) : $0.element
      }
    }
  }

  static let table = [
    Damage("main.jsonl", "line 2 of main.jsonl", "'null'", line(2, "not JSON")),
    Damage("main.jsonl", "line 2 of main.jsonl", "no format", line(2, "{}")),
    Damage("main.jsonl", "line 2 of main.jsonl", "byte") { lines in
      // As two writers leave it who do not know of each other.
      let half = lines[1].utf8.count / 2
      let (first, second) = (lines[1].prefix(half), lines[1].dropFirst(half))
      return [lines[0], first + lines[2], String(second)]
    },
    Damage("doc-3.jsonl", "line 1 of doc-3.jsonl", "byte") { lines in
      [String(lines[0].prefix(40)), lines[1]]
    },
    Damage("main.jsonl", "line 2 of main.jsonl", "byte", line(2, "")),
    Damage(
      "main.jsonl",
      "line 3 of main.jsonl",
      "does not follow",
      edit(3, #""seq":3"#, #""seq":2"#)
    ),
    Damage("main.jsonl", "line 1 of main.jsonl", "'seq'", edit(1, #""seq":1"#, #""seq":0"#)),
    Damage("main.jsonl", "line 1 of main.jsonl", "'writes'", edit(1, #""writes":["#, #""x":["#)),
    Damage("main.jsonl", "line 1 of main.jsonl", "known write", edit(1, #""entry""#, #""enter""#)),
    Damage(
      "main.jsonl",
      "line 1 of main.jsonl",
      "'kind'",
      edit(1, #""kind":"test""#, #""kind":1"#)
    ),
    Damage(
      "main.jsonl",
      "line 3 of main.jsonl",
      "already belongs",
      edit(3, #""id":9"#, #""id":2"#)
    ),
    Damage("main.jsonl", "line 2 of main.jsonl", "named twice") { lines in
      lines.enumerated().map {
        $0.offset == 1
          ? $0.element.replacing(
            #"{"type":"task.sidecar","id":4,"ordinal":0}"#,
            with: #"{"type":"task.sidecar","id":4,"ordinal":0},"#
              + #"{"type":"task.sidecar","id":4,"ordinal":0}"#
          ) : $0.element
      }
    },
    Damage("main.jsonl", "main.jsonl", "missing") { _ in [] },
    Damage("task-4.jsonl", "task-4.jsonl", "record 0 of the commit 1 is missing") {
      Array($0.dropFirst())
    },
    Damage("task-4.jsonl", "task-4.jsonl", "record 0 of the commit 2 is missing") {
      Array($0.dropLast())
    },
    Damage("task-4.jsonl", "line 2 of task-4.jsonl", "does not follow") { [$0[0], $0[0]] },
    Damage("task-4.jsonl", "line 1 of task-4.jsonl", "live task") { lines in
      edit(
        1,
        #"{"status":"pending","checkpoint":1}"#,
        #"{"status":"terminal","outcome":"#
          + #"{"status":"completed","result":1}}"#
      )(lines)
    },
    Damage(
      "task-4.jsonl",
      "line 1 of task-4.jsonl",
      "another file",
      edit(1, #""id":4"#, #""id":5"#)
    ),
    Damage("task-4.jsonl", "line 3 of task-4.jsonl", "nothing confirms") { lines in
      [
        lines[0],
        lines[0].replacing(#""ordinal":0"#, with: #""ordinal":9"#),
        lines[1],
      ]
    },
    Damage("doc-3.jsonl", "line 2 of doc-3.jsonl", "operation", edit(2, #"["s","#, #"["?","#)),
    Damage(
      "doc-3.jsonl",
      "line 1 of doc-3.jsonl",
      "'version'",
      edit(1, #""version":1"#, #""version":0"#)
    ),
    Damage("doc-3.jsonl", "line 1 of main.jsonl", "without a base") { lines in
      edit(
        1,
        #""kind":"base","version":1,"value":{"n":1}"#,
        #""kind":"delta","version":1,"ops":[]"#
      )(
        lines
      )
    },
    Damage("perdure.jsonl", "line 1 of perdure.jsonl", "'writes'", edit(1, "writes", "rights")),
    Damage("perdure.jsonl", "line 2 of perdure.jsonl", "no commit confirms") { lines in
      [lines[0].replacing(#""marker":""#, with: #""marker":"0"#), lines[0]]
    },
  ]

  private let folder = TemporaryFolder()

  private var path: String { folder.file("store") }

  /// A store of three commits.
  private func makeStore() async throws {
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    let store = try await DirectStore(storage)
    let record = DocumentRecord(
      id: known(3),
      address: DocumentAddress(kind: "doc", scope: .conversation(.root)),
      history: .rewindable,
      fork: .asOf,
      createdAt: 0
    )
    _ = try await store.commit(
      [
        entry(2, "a"), task(4, .pending(checkpoint: 1)),
        .createDocument(record, version: 1, value: ["n": 1]),
      ],
      extras: [ExtraWrite(scope: "a", id: 0, value: 1)]
    )
    let delta = DocumentContent.delta(version: 1, operations: [.set(["n"], 2)])
    _ = try await store.commit(
      [task(4, .running(checkpoint: 1)), .changeDocument(known(3), delta)],
      extras: []
    )
    _ = try await store.commit([entry(9)], extras: [])
    await store.close()
  }

  private func lines(_ name: String) -> [String] {
    String(decoding: read(path + "/" + name), as: UTF8.self).split(separator: "\n").map(String.init)
  }

  private var files: [String: [UInt8]] {
    var files: [String: [UInt8]] = [:]
    for name in folder.names(in: path) where name != "perdure.lock" {
      files[name] = read(path + "/" + name)
    }
    return files
  }

  @Test(arguments: table)
  func `damage is named with its file and line, and nothing is rewritten`(
    damage: Damage
  ) async throws {
    try await makeStore()
    let file = path + "/" + damage.file
    let old = lines(damage.file)
    let new = damage.change(old)
    #expect(new != old)
    write(Array(new.map { $0 + "\n" }.joined().utf8), to: file)
    if new.isEmpty { remove(file) }
    let before = files
    for readOnly in [false, true] {
      let open = { _ = try await JSONLStorage.open(path: path, readOnly: readOnly) }
      #expect(await code(of: open) == .storeCorrupt)
      let text = await sentence(of: open)
      #expect(text.contains("the store \(path) is damaged in \(damage.place) ("), "\(text)")
      #expect(text.contains(damage.text), "\(text)")
    }
    #expect(files == before)
  }

  @Test(arguments: table)
  func `whoever only looks sees what is not damaged, and hears what is`(
    damage: Damage
  ) async throws {
    try await makeStore()
    let new = damage.change(lines(damage.file))
    let file = path + "/" + damage.file
    write(Array(new.map { $0 + "\n" }.joined().utf8), to: file)
    if new.isEmpty { return }
    let before = files
    let reader = try await JSONLStorage.open(path: path, readOnly: true, passesOverDamage: true)
    #expect(reader.damages.first?.description.contains("is damaged in \(damage.place) (") == true)
    #expect(reader.damages.allSatisfy { $0.code == .storeCorrupt })
    // What is there is right, and the commits that are whole are there.
    var seen: [Int64] = []
    for id in [Int64(2), 9] where try await reader.entry(known(id)) != nil { seen.append(id) }
    #expect(!seen.isEmpty)
    let value = try await reader.document(known(3), at: nil)?.value
    #expect(value == nil || value == ["n": 2] || damage.place == "line 2 of main.jsonl")
    await reader.close()
    #expect(files == before)
  }

  @Test(arguments: ["main.jsonl", "task-4.jsonl", "doc-3.jsonl", "perdure.jsonl"])
  func `a torn last line is taken for what a crash left`(name: String) async throws {
    try await makeStore()
    let file = path + "/" + name
    let whole = read(file)
    write(whole + Array(#"{"format":1,"ty"#.utf8), to: file)
    let torn = files
    let reader = try await JSONLStorage.open(path: path, readOnly: true)
    #expect(try await reader.counters().nextSequence == 4)
    await reader.close()
    #expect(files == torn)
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    #expect(read(file) == whole)
    #expect(try await storage.document(known(3), at: nil)?.value == ["n": 2])
    await storage.close()
  }

  @Test func `records of a commit that was cut off are removed`() async throws {
    try await makeStore()
    let main = path + "/main.jsonl"
    let kept = lines("main.jsonl").prefix(1).map { $0 + "\n" }.joined()
    write(Array(kept.utf8), to: main)
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    #expect(lines("task-4.jsonl").count == 1)
    #expect(lines("doc-3.jsonl").count == 1)
    #expect(lines("perdure.jsonl").count == 1)
    #expect(try await storage.task(known(4))?.state == .pending(checkpoint: 1))
    #expect(try await storage.counters() == StoreCounters(nextSequence: 2, nextId: 5))
    await storage.close()
  }

  @Test(arguments: ["main.jsonl", "task-4.jsonl", "perdure.jsonl"])
  func `a line of a newer format says that a newer version wrote it`(name: String) async throws {
    try await makeStore()
    let file = path + "/" + name
    let newer = lines(name).map { $0.replacing(#""format":1"#, with: #""format":2"#) + "\n" }
    write(Array(newer.joined().utf8), to: file)
    let before = files
    let text = await sentence { _ = try await JSONLStorage.open(path: path) }
    #expect(text.contains("is from a newer version (\(name) has the format 2, known is 1)"))
    #expect(files == before)
  }

  @Test func `invalid UTF-8 in a complete line is damage`() async throws {
    try await makeStore()
    write(read(path + "/main.jsonl") + [0x22, 0xFF, 0x22, 0x0A], to: path + "/main.jsonl")
    let text = await sentence { _ = try await JSONLStorage.open(path: path) }
    #expect(text.contains("damaged in line 4 of main.jsonl"))
  }
}

private func remove(_ path: String) {
  // The test looks at what is left.
  _ = unsafe Glibc.remove(path)
}
