import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct OwnershipTests {
  @Test func `a second opener is told who owns the store`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let open = { _ = try await openStore(folder) }
    #expect(await code(of: open) == .storeInUse)
    #expect(await sentence(of: open).contains("in use by process \(getpid()) on "))
    await storage.close()
    try await openStore(folder).close()
  }

  @Test func `whoever only looks is told who owns the store now`() async throws {
    let folder = TemporaryFolder()
    let path = folder.file("store.sqlite")
    #expect(StoreLock.owner(ofStore: path) == nil)
    let storage = try await openStore(folder)
    #expect(StoreLock.owner(ofStore: path)?.pid == Int64(getpid()))
    await storage.close()
    #expect(StoreLock.owner(ofStore: path) == nil)
  }

  @Test func `two names of one store share a lock`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let other = folder.file("other.sqlite")
    #expect(unsafe symlink(folder.file("store.sqlite"), other) == 0)
    #expect(await code { _ = try await SQLiteStorage.open(path: other) } == .storeInUse)
    await storage.close()
  }

  @Test func `a store with a second hard link is refused`() async throws {
    let folder = TemporaryFolder()
    try await openStore(folder).close()
    let other = folder.file("other.sqlite")
    #expect(unsafe link(folder.file("store.sqlite"), other) == 0)
    for path in [folder.file("store.sqlite"), other] {
      let open = { _ = try await SQLiteStorage.open(path: path) }
      #expect(await code(of: open) == .storeUnwritable)
      #expect(await sentence(of: open).contains("has a second name"))
    }
    #expect(unsafe unlink(other) == 0)
    try await openStore(folder).close()
  }

  @Test func `a store may have any name when it is read`() async throws {
    let folder = TemporaryFolder()
    let path = folder.file("ä ö?#%41.sqlite")
    try await SQLiteStorage.open(path: path).close()
    try await SQLiteStorage.open(path: path, readOnly: true).close()
  }

  @Test func `the death of another process frees its store`() async throws {
    let folder = TemporaryFolder()
    try await openStore(folder).close()
    write(
      Array(#"{"pid":4242,"since":1700000000000,"host":"box"}"#.utf8),
      to: folder.file("store.sqlite.lock")
    )
    #expect(unsafe mkfifo(folder.file("fifo"), 0o600) == 0)
    // The lock belongs to flock itself, not to the shell that it starts.
    let command = """
      exec flock -n -o '\(folder.file("store.sqlite.lock"))' \
      sh -c 'echo $PPID; cat "\(folder.file("fifo"))"'
      """
    guard let pipe = unsafe popen(command, "r") else {
      Issue.record("flock could not be started")
      return
    }
    var line = [CChar](repeating: 0, count: 32)
    #expect(unsafe fgets(&line, 32, pipe) != nil)
    let digits = line.filter { (48...57).contains($0) }.map { UInt8(bitPattern: $0) }
    let pid = try #require(Int32(String(decoding: digits, as: UTF8.self)))
    let text = await sentence { _ = try await openStore(folder) }
    #expect(text.contains("in use by process 4242 on box since 2023-11-14 22:13:20 UTC"))
    kill(pid, SIGKILL)
    // End of file on the pipe would come from the shell; flock is gone once it can be waited for.
    let fifo = unsafe open(folder.file("fifo"), O_WRONLY)
    close(fifo)
    unsafe pclose(pipe)
    try await openStore(folder).close()
  }

  @Test func `another program that wrote stops the next group`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2)], extras: [])
    try connect(folder).execute("UPDATE durable_metadata SET next_id = '77'")
    #expect(
      await code { _ = try await store.commit([entry(3)], extras: []) } == .foreignWriter
    )
    #expect(try await storage.entry(known(3)) == nil)
    await storage.close()
  }

  @Test(arguments: [true, false])
  func `a store file that was moved or replaced is not written`(isReplaced: Bool) async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    let path = folder.file("store.sqlite")
    #expect(unsafe rename(path, folder.file("moved.sqlite")) == 0)
    if isReplaced { write([], to: path) }
    #expect(
      await code { _ = try await store.commit([entry(2)], extras: []) } == .foreignWriter
    )
    await storage.close()
  }

  @Test func `a program that keeps the database locked is named as the reason`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    let other = try connect(folder)
    try other.execute("BEGIN IMMEDIATE")
    #expect(await code { _ = try await store.commit([entry(2)], extras: []) } == .storeInUse)
    try other.execute("ROLLBACK")
    _ = try await store.commit([entry(2)], extras: [])
    await storage.close()
  }

  @Test func `a reader sees what the owner commits and leaves no trace`() async throws {
    let folder = TemporaryFolder()
    let owner = try await openStore(folder)
    let store = try await DirectStore(owner)
    _ = try await store.commit([entry(2, "a")], extras: [])
    let names = folder.names
    let reader = try await openStore(folder, readOnly: true)
    #expect(try await reader.entry(known(2))?.entry.data == "a")
    _ = try await store.commit([entry(3, "b")], extras: [])
    #expect(try await reader.entry(known(3))?.entry.data == "b")
    await reader.close()
    #expect(folder.names == names)
    await owner.close()
  }

  @Test func `a reader of a closed store creates nothing`() async throws {
    let folder = TemporaryFolder()
    let owner = try await openStore(folder)
    _ = try await DirectStore(owner).commit([entry(2, "a")], extras: [])
    await owner.close()
    let (names, bytes) = (folder.names, read(folder.file("store.sqlite")))
    let reader = try await openStore(folder, readOnly: true)
    #expect(try await reader.entry(known(2)) != nil)
    let counters = try await reader.counters()
    #expect(
      await code { try await reader.apply([], expecting: counters, nextId: 9) }
        == .storeUnwritable
    )
    await reader.close()
    #expect(folder.names == names)
    #expect(read(folder.file("store.sqlite")) == bytes)
  }

  @Test func `a reader of a crashed store sees its last commit and repairs nothing`() async throws {
    let folder = TemporaryFolder()
    let owner = try await openStore(folder)
    _ = try await DirectStore(owner).commit([entry(2, "a")], extras: [])
    // The files as a killed process leaves them.
    for suffix in ["", "-wal", "-shm"] {
      write(
        read(folder.file("store.sqlite\(suffix)")),
        to: folder.file("crashed.sqlite\(suffix)")
      )
    }
    await owner.close()
    let log = read(folder.file("crashed.sqlite-wal"))
    let reader = try await SQLiteStorage.open(path: folder.file("crashed.sqlite"), readOnly: true)
    #expect(try await reader.entry(known(2))?.entry.data == "a")
    await reader.close()
    #expect(read(folder.file("crashed.sqlite-wal")) == log)
  }

  @Test func `reading a store that does not exist creates none`() async {
    let folder = TemporaryFolder()
    #expect(await code { _ = try await openStore(folder, readOnly: true) } == .notFound)
    #expect(folder.names == [])
  }
}
