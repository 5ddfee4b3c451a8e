import CPerdureLinux
import Foundation
import PerdureModel
import PerdureSandbox
import Synchronization
import Testing

/// No way leads out of the folder of an environment.
@Suite struct EscapeTests {
  /// A folder with an environment, beside a secret that it must not reach.
  private struct Place {
    let outer: Folder
    let env: TreeEnvironment

    init() throws {
      outer = try Folder()
      try FileManager.default.createDirectory(
        atPath: outer.at("root"),
        withIntermediateDirectories: false
      )
      try outer.write("secret", "secret")
      env = try TreeEnvironment.directory(at: outer.at("root"))
    }

    func link(_ path: String, to target: String) throws {
      try outer.link("root/\(path)", to: target)
    }
  }

  private func code(
    _ body: () async throws -> Void
  ) async -> FileError.Code? {
    do {
      try await body()
      return nil
    } catch {
      return (error as? FileError)?.code
    }
  }

  @Test(arguments: [
    "../secret", "/../../secret", "../../../../../../etc/passwd", "/etc/passwd", "a/../../secret",
  ])
  func `dots lead to nothing outside`(path: String) async throws {
    let place = try Place()
    defer { place.outer.remove() }
    #expect(await code { _ = try await place.env.readTextFile(path) } == .notFound)
  }

  @Test(arguments: [
    "/etc/passwd", "../secret", "../../../../../../../etc/passwd", "/proc/self/root/etc/passwd",
    "/proc/self/cwd", "/proc/self/fd/0", "/",
  ])
  func `a link that leads outside is not followed`(target: String) async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try place.link("link", to: target)
    let env = place.env
    let attempts: [@Sendable () async throws -> Void] = [
      { _ = try await env.readTextFile("link") },
      { _ = try await env.readTextFile("link/passwd") },
      { try await env.writeFile("link", "x") },
      { try await env.writeFile("link/new", "x") },
      { try await env.appendFile("link", [65]) },
      { try await env.truncateFile("link", to: 0) },
      { try await env.createFolder("link/new") },
      { _ = try await env.openFolder("link") },
      { _ = try await env.canonicalPath("link") },
      { try await env.rename("link/passwd", to: "stolen") },
      { _ = try await env.listFiles("link", ListingBounds(maxEntries: 10)) },
    ]
    for attempt in attempts {
      #expect(await code(attempt) == .permissionDenied)
    }
    #expect(try place.outer.text("secret") == "secret")
    // The link itself is there, and can be looked at and removed.
    #expect(try await env.fileInfo("link").target == target)
    try await env.remove("link")
  }

  @Test func `a loop of links ends`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try place.link("a", to: "b")
    try place.link("b", to: "a")
    #expect(await code { _ = try await place.env.readTextFile("a") } == .permissionDenied)
    #expect(await code { try await place.env.writeFile("a", "x") } == .permissionDenied)
  }

  @Test func `nothing is found outside while a folder and a link take turns`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    let root = place.outer.at("root")
    try FileManager.default.createDirectory(
      atPath: "\(root)/swap",
      withIntermediateDirectories: false
    )
    try place.outer.write("root/swap/secret", "inside")
    try place.link("other", to: "..")
    let isOver = Mutex(false)
    let swapper = Thread {
      while !isOver.withLock({ $0 }) {
        _ = unsafe rename("\(root)/swap", "\(root)/third")
        _ = unsafe rename("\(root)/other", "\(root)/swap")
        _ = unsafe rename("\(root)/third", "\(root)/other")
        // Other tests want the processor, too.
        usleep(20)
      }
    }
    swapper.start()
    var found: Set<String> = []
    for _ in 0..<1_000 {
      do {
        found.insert(try await place.env.readTextFile("swap/secret"))
      } catch {
        continue
      }
      try? await place.env.writeFile("swap/secret", "inside")
    }
    isOver.withLock { $0 = true }
    #expect(found == ["inside"])
    #expect(try place.outer.text("secret") == "secret")
  }

  @Test func `nothing is found outside while a folder moves out and in`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    let (inside, outside) = (place.outer.at("root/a"), place.outer.at("moved"))
    try FileManager.default.createDirectory(
      atPath: "\(inside)/b/c",
      withIntermediateDirectories: true
    )
    let isOver = Mutex(false)
    let moves = Mutex(0)
    let mover = Thread {
      while !isOver.withLock({ $0 }) {
        let isOutside = unsafe rename(inside, outside) == 0
        let isBack = unsafe rename(outside, inside) == 0
        if isOutside, isBack { moves.withLock { $0 += 1 } }
        usleep(20)
      }
    }
    mover.start()
    try place.link("up", to: "a/b/c/../../../secret")
    for _ in 0..<1_000 {
      let text = try? await place.env.readTextFile("up")
      #expect(text == nil)
      if text != nil { break }
    }
    isOver.withLock { $0 = true }
    #expect(moves.withLock { $0 } > 0)
  }

  @Test func `new content does not run in the name of the owner of the old one`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try place.outer.write("root/tool", "old")
    let file = place.outer.at("root/tool")
    #expect(unsafe chmod(file, 0o6755) == 0)
    try await place.env.writeFile("tool", "new")
    let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
    #expect(mode == 0o755)
  }

  @Test func `folders too deep to be watched are refused in a sentence`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    let deep = Array(repeating: "d", count: 450).joined(separator: "/")
    try FileManager.default.createDirectory(
      atPath: place.outer.at("root/" + deep),
      withIntermediateDirectories: true
    )
    let error = await #expect(throws: FileError.self) {
      let watch = try await place.env.watch([WatchTarget("/", recursive: true)]) { _ in }
      await watch.close()
    }
    #expect(error?.message.contains("or more than 400 deep") == true)
  }

  @Test func `a folder that another one replaces stays the one that was opened`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try await place.env.writeFile("f", "old")
    try FileManager.default.moveItem(
      atPath: place.outer.at("root"),
      toPath: place.outer.at("moved")
    )
    try place.outer.link("root", to: "/etc")
    #expect(try await place.env.readTextFile("f") == "old")
    #expect(await code { _ = try await place.env.readTextFile("passwd") } == .notFound)
    try await place.env.writeFile("new", "x")
    #expect(try place.outer.text("moved/new") == "x")
    #expect(try await place.env.canonicalPath("new") == "/new")
  }

  @Test func `a folder that is removed has nothing and takes nothing`() async throws {
    let place = try Place()
    place.outer.remove()
    #expect(await code { _ = try await place.env.readTextFile("f") } == .notFound)
    #expect(await code { try await place.env.writeFile("f", "x") } == .notFound)
  }

  @Test(arguments: ["/", ".", "//", "/a/..", "a/../..", ""])
  func `the root is neither removed nor renamed`(path: String) async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try await place.env.writeFile("a/f", "x")
    #expect(
      await code { try await place.env.remove(path, recursive: true, force: true) }
        == .permissionDenied
    )
    #expect(await code { try await place.env.rename(path, to: "b") } == .permissionDenied)
    #expect(await code { try await place.env.rename("a", to: path) } == .permissionDenied)
    #expect(try await place.env.exists("a/f"))
  }

  @Test func `pipes and devices are refused at once`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    #expect(unsafe perdure_tree_make_fifo(place.outer.at("root/pipe")) == 0)
    let env = place.env
    let attempts: [@Sendable () async throws -> Void] = [
      { _ = try await env.readTextFile("pipe") },
      { try await env.writeFile("pipe", "x") },
      { try await env.appendFile("pipe", [65]) },
      { try await env.truncateFile("pipe", to: 0) },
      { try await env.flushFile("pipe") },
      { _ = try await env.fileInfo("pipe") },
    ]
    for attempt in attempts { #expect(await code(attempt) == .invalid) }
    #expect(try await env.listFolder(".").isEmpty)
    let machine = try TreeEnvironment.local(cwd: "/")
    for path in ["/dev/zero", "/dev/tty", "/dev/null"] {
      #expect(await code { _ = try await machine.readTextFile(path) } == .invalid)
    }
  }

  @Test func `another name of a file outside keeps its content`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    let env = place.env
    for name in ["written", "appended", "cut"] {
      try FileManager.default.linkItem(
        atPath: place.outer.at("secret"),
        toPath: place.outer.at("root/\(name)")
      )
    }
    try await env.writeFile("written", "new")
    try await env.appendFile("appended", Array("more".utf8))
    try await env.truncateFile("cut", to: 1)
    #expect(try place.outer.text("secret") == "secret")
    #expect(try await env.readTextFile("written") == "new")
    #expect(try await env.readTextFile("appended") == "secretmore")
    #expect(try await env.readTextFile("cut") == "s")
  }

  @Test func `removing a tree follows no link`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try await place.env.createFolder("d/e")
    try place.link("d/e/up", to: "../../..")
    try place.link("d/file", to: "../../secret")
    try await place.env.remove("d", recursive: true, force: false)
    #expect(try place.outer.text("secret") == "secret")
    #expect(try await !place.env.exists("d"))
  }

  @Test func `a write keeps the mode and the other bytes of nobody`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try await place.env.writeFile("run", "1")
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o751],
      ofItemAtPath: place.outer.at("root/run")
    )
    try await place.env.writeFile("run", "2")
    let attributes = try FileManager.default.attributesOfItem(atPath: place.outer.at("root/run"))
    #expect(attributes[.posixPermissions] as? Int == 0o751)
    #expect(try await place.env.listFolder(".").map { $0.name } == ["run"])
  }

  @Test(
    arguments: [
      ("a/b/f", 0), ("a/./b//f", 0), ("", 0), ("a/missing", ENOENT), ("a/b/f/x", ENOTDIR),
      ("inside/f", ELOOP), ("out", ELOOP), ("a/../a", EXDEV), ("..", EXDEV),
    ] as [(String, Int32)]
  )
  func `without openat2 no link is followed`(path: String, code: Int32) async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try await place.env.writeFile("a/b/f", "x")
    try place.link("inside", to: "a/b")
    try place.link("out", to: "/etc/passwd")
    let root = unsafe perdure_tree_root(place.outer.at("root"))
    defer { perdure_tree_close(root) }
    let reach = Int32(PERDURE_REACH_NO_LINKS.rawValue)
    let found = unsafe perdure_tree_open(root, path, 0, reach)
    #expect(code == 0 ? found >= 0 : found == -code)
    if found >= 0 { perdure_tree_close(found) }
  }

  @Test func `a folder of very many entries is paged`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    for number in 0..<1_000 {
      let file = unsafe open(place.outer.at("root/\(number)"), O_CREAT | O_WRONLY, 0o600)
      close(file)
    }
    let reader = try await place.env.openFolder("/")
    var seen: Set<String> = []
    while true {
      let page = try await reader.next(1_000)
      #expect(page.entries.count <= 1_000)
      seen.formUnion(page.entries.map { $0.name })
      if page.isLast { break }
    }
    await reader.close()
    #expect(seen.count == 1_000)
    let listing = try await place.env.listFiles("/", ListingBounds(maxEntries: 3))
    #expect(listing.entries.map { $0.path } == ["0", "1", "10"])
    #expect(listing.truncated)
  }

  @Test func `names that no display should show are quoted in messages`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    let error = await #expect(throws: FileError.self) {
      _ = try await place.env.readTextFile("a\u{1B}[31m\nb\u{202E}")
    }
    #expect(error?.description == #"'/a\u{1b}[31m\u{a}b\u{202e}' does not exist"#)
    let name = "a\n\u{1B}" + String(repeating: "é", count: 120)
    try await place.env.writeFile(name, "x")
    #expect(try await place.env.listFolder(".").map { $0.name } == [name])
    #expect(await code { try await place.env.writeFile(name + "é" + name, "x") } == .invalid)
  }

  @Test func `no message names the folder on the machine`() async throws {
    let place = try Place()
    defer { place.outer.remove() }
    try place.link("out", to: "../secret")
    for path in ["missing", "out", "out/x", "a\0b", "pipe/x"] {
      let error = await #expect(throws: FileError.self) {
        _ = try await place.env.readTextFile(path)
      }
      #expect(error?.description.contains(place.outer.path) == false)
    }
  }
}
