import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct JSONLOwnershipTests {
  private let folder = TemporaryFolder()

  private var path: String { folder.file("store") }

  private func open(readOnly: Bool = false) async throws -> JSONLStorage {
    try await JSONLStorage.open(path: path, durability: .normal, readOnly: readOnly)
  }

  private var files: [String: [UInt8]] {
    let names = folder.names(in: path)
    return Dictionary(uniqueKeysWithValues: names.map { ($0, read(path + "/" + $0)) })
  }

  @Test func `a second opener is told who owns the store`() async throws {
    let storage = try await open()
    let text = await sentence { _ = try await open() }
    #expect(text.contains("the store \(path) is in use by process \(getpid()) on "))
    await storage.close()
    try await open().close()
  }

  @Test func `two names of one store share a lock`() async throws {
    let storage = try await open()
    let other = folder.file("other")
    #expect(unsafe symlink(path, other) == 0)
    #expect(await code { _ = try await JSONLStorage.open(path: other) } == .storeInUse)
    await storage.close()
    #expect(unsafe unlink(other) == 0)
  }

  @Test func `another program that wrote stops the next group`() async throws {
    let storage = try await open()
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2)], extras: [])
    let main = path + "/main.jsonl"
    write(
      read(main) + Array(#"{"format":1,"type":"commit","seq":2,"writes":[]}"#.utf8) + [10],
      to: main
    )
    let before = files
    #expect(await code { _ = try await store.commit([entry(3)], extras: []) } == .foreignWriter)
    #expect(files == before)
    #expect(try await storage.entry(known(3)) == nil)
    await storage.close()
  }

  @Test(arguments: ["moved folder", "replaced folder", "removed file", "replaced file"])
  func `a store that was moved or replaced is not written`(change: String) async throws {
    let storage = try await open()
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2)], extras: [])
    let main = path + "/main.jsonl"
    let bytes = read(main)
    let moved = folder.file("moved")
    switch change {
    case "moved folder": #expect(unsafe rename(path, moved) == 0)
    case "replaced folder":
      #expect(unsafe rename(path, moved) == 0 && mkdir(path, 0o700) == 0)
      write(bytes, to: main)
    case "removed file": #expect(unsafe unlink(main) == 0)
    default:
      write(bytes, to: main + ".new")
      #expect(unsafe rename(main + ".new", main) == 0)
    }
    #expect(await code { _ = try await store.commit([entry(3)], extras: []) } == .foreignWriter)
    await storage.close()
  }

  @Test func `a reader sees what the owner has committed and leaves no trace`() async throws {
    let owner = try await open()
    let store = try await DirectStore(owner)
    _ = try await store.commit([entry(2, "a")], extras: [])
    let before = files
    let reader = try await open(readOnly: true)
    #expect(try await reader.entry(known(2))?.entry.data == "a")
    let counters = try await reader.counters()
    #expect(
      await code { try await reader.apply([], expecting: counters, nextId: 9) }
        == .storeUnwritable
    )
    await reader.close()
    #expect(files == before)
    await owner.close()
  }

  @Test func `readers of a store that is being written are never told that it is damaged`()
    async throws
  {
    let store = try await DirectStore(try await open())
    _ = try await store.commit(
      [.createDocument(document(2), version: 1, value: ["n": 0])],
      extras: []
    )
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        for number in 1...200 {
          let id = Int64(2 + number)
          _ = try await store.commit(
            [
              .changeDocument(known(2), .base(version: 1, value: ["n": .int(number)])),
              task(id, .running(checkpoint: 1)),
            ],
            extras: []
          )
          _ = try await store.commit([task(id, .terminal(.completed(result: 1)))], extras: [])
        }
      }
      group.addTask {
        var last: Int64 = 0
        for _ in 0..<40 {
          let reader = try await open(readOnly: true)
          let value = try await reader.document(known(2), at: nil)?.value["n"]?.int
          #expect(value ?? -1 >= last)
          last = value ?? last
          await reader.close()
        }
      }
      try await group.waitForAll()
    }
    await store.close()
  }

  @Test func `reading a store that does not exist creates none`() async {
    #expect(await code { _ = try await open(readOnly: true) } == .notFound)
    #expect(folder.names == [])
    #expect(unsafe mkdir(path, 0o700) == 0)
    #expect(await code { _ = try await open(readOnly: true) } == .notFound)
    #expect(files.isEmpty)
  }

  @Test(arguments: [false, true])
  func `a folder of other files is no store`(readOnly: Bool) async {
    #expect(unsafe mkdir(path, 0o700) == 0)
    write([1], to: path + "/notes.txt")
    let text = await sentence { _ = try await open(readOnly: readOnly) }
    #expect(text.contains("the folder \(path) holds other files and no store"))
    #expect(files.keys.sorted() == ["notes.txt"])
  }

  @Test func `a file is no JSONL store`() async {
    write([1], to: path)
    for readOnly in [false, true] {
      #expect(await code { _ = try await open(readOnly: readOnly) } == .storeUnreadable)
    }
  }

  @Test func `a store in a missing folder is refused`() async {
    let inner = path + "/inner"
    let error = await sentence { _ = try await JSONLStorage.open(path: inner) }
    #expect(error.contains("the store \(inner) cannot be opened (No such file or directory)"))
    #expect(folder.names == [])
  }

  @Test func `a closed store lets go of its folder`() async throws {
    let storage = try await open()
    await storage.close()
    #expect(await code { _ = try await storage.counters() } == .closed)
    let counters = StoreCounters()
    #expect(
      await code { try await storage.apply([], expecting: counters, nextId: 2) } == .closed
    )
  }
}
