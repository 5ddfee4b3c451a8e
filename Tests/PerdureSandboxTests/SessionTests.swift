import Foundation
import PerdureModel
import PerdureSandbox
import PerdureValue
import Testing

/// Commands in the background, in every tier that this machine has and without any.
@Suite struct SessionTests {
  /// An environment with sessions.
  struct Place: Sendable {
    var folder: Folder
    var env: TreeEnvironment
  }

  static let tiers: [SandboxPolicy.Tier?] = Tiers.here + [nil]

  private static func open(
    _ tier: SandboxPolicy.Tier?,
    _ change: (inout SandboxPolicy) -> Void = { _ in }
  ) throws -> Place {
    if let tier {
      let box = try Box(tier, change)
      return Place(folder: box.folder, env: box.env)
    }
    let folder = try Folder()
    return Place(
      folder: folder,
      env: try TreeEnvironment.local(cwd: folder.path, launcher: Launcher.path.get())
    )
  }

  /// Reads until the text holds `part` or the session ends; all that was read.
  private static func read(_ session: any CommandSession, until part: String) async -> String {
    var text = ""
    var position = SessionPosition.start
    while !text.contains(part) {
      let output = await session.output(after: position, within: 60)
      text += output.chunks.map { $0.text }.joined()
      position = output.position
      if output.end != nil || output.chunks.isEmpty { break }
    }
    return text
  }

  private static func start(
    _ env: any Environment,
    _ line: String,
    terminal: Bool = false
  ) async throws -> any CommandSession {
    let options = SessionOptions(terminal: terminal ? TerminalSize() : nil)
    return try await env.startSession(.shell(line), options)
  }

  /// What ignores signals and has left its group and session, named by a number.
  private static func stubborn(_ mark: UInt32) -> String {
    "trap '' TERM HUP INT; setsid sleep 7\(mark) & setsid bash -c \"trap '' TERM HUP INT; "
      + "while :; do sleep 7\(mark); done\" & echo begun; while :; do sleep 7\(mark); done"
  }

  private static func isThere(_ mark: UInt32) -> Bool { Processes.named("sleep\u{0}7\(mark)") }

  private static var mark: UInt32 { UInt32.random(in: 10_000...99_999) }

  @Test(arguments: tiers)
  func `stopping ends a tree that ignores signals`(tier: SandboxPolicy.Tier?) async throws {
    let place = try Self.open(tier) { $0.limits.grace = 0.2 }
    defer { place.folder.remove() }
    let mark = Self.mark
    let session = try await Self.start(place.env, Self.stubborn(mark))
    #expect(await Self.read(session, until: "begun\n") == "begun\n")
    let end = await session.stop()
    #expect(end.exitCode == 137)
    #expect(!Self.isThere(mark))
  }

  @Test(arguments: tiers)
  func `what a command started ends with it`(tier: SandboxPolicy.Tier?) async throws {
    let place = try Self.open(tier)
    defer { place.folder.remove() }
    let mark = Self.mark
    let session = try await Self.start(
      place.env,
      "(trap '' TERM HUP; setsid sleep 7\(mark) & sleep 7\(mark) &) > /dev/null 2>&1; echo done"
    )
    #expect(await session.wait().exitCode == 0)
    #expect(!Self.isThere(mark))
    #expect(session.output(after: .start).chunks.map { $0.text } == ["done\n"])
  }

  @Test(arguments: tiers)
  func `closing an environment ends its sessions`(tier: SandboxPolicy.Tier?) async throws {
    let place = try Self.open(tier)
    defer { place.folder.remove() }
    let mark = Self.mark
    let session = try await Self.start(place.env, Self.stubborn(mark))
    _ = await Self.read(session, until: "begun\n")
    await place.env.close()
    #expect(session.end != nil)
    #expect(!Self.isThere(mark))
  }

  @Test(arguments: tiers)
  func `letting go of an environment ends its sessions`(tier: SandboxPolicy.Tier?) async throws {
    var place: Place? = try Self.open(tier)
    let folder = try #require(place?.folder)
    defer { folder.remove() }
    let mark = Self.mark
    let env = try #require(place?.env)
    let session = try await Self.start(consume env, Self.stubborn(mark))
    _ = await Self.read(session, until: "begun\n")
    place = nil
    _ = await session.wait()
    #expect(!Self.isThere(mark))
  }

  @Test(arguments: Tiers.here)
  func `no terminal lets a command type into it`(tier: SandboxPolicy.Tier) async throws {
    let place = try Self.open(tier)
    defer { place.folder.remove() }
    let session = try await Self.start(
      place.env,
      "python3 -c 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b\"x\")'",
      terminal: true
    )
    #expect(await Self.read(session, until: "\u{0}").contains("Operation not permitted"))
    #expect(await session.wait().exitCode == 1)
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `a terminal is one of the sandbox's own`(tier: SandboxPolicy.Tier) async throws {
    let place = try Self.open(tier)
    defer { place.folder.remove() }
    let session = try await Self.start(place.env, "tty; ls /dev/pts", terminal: true)
    #expect(await Self.read(session, until: "\u{0}") == "/dev/pts/0\r\n0  ptmx\r\n")
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `a command reaches a server in the background on the loopback of its sandbox`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let place = try Self.open(tier) { $0.network = .loopback }
    defer { place.folder.remove() }
    try place.folder.write("page.txt", "served")
    let server = try await Self.start(
      place.env,
      "exec python3 -u -m http.server 8123 --bind 127.0.0.1 2>&1"
    )
    #expect(await Self.read(server, until: "Serving").contains("Serving"))
    let line =
      "import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/page.txt\").read())"
    let client = try await Self.start(place.env, "python3 -c '\(line)'")
    #expect(await Self.read(client, until: "\u{0}") == "b'served'\n")
    #expect(await Self.read(server, until: "GET").contains("GET /page.txt"))
    #expect(await server.stop().failure?.code == .aborted)
  }

  @Test(arguments: Tiers.here)
  func `a policy bounds how many run, and for how long`(tier: SandboxPolicy.Tier) async throws {
    let place = try Self.open(tier) {
      $0.limits.sessions = 2
      $0.limits.sessionSeconds = 600
    }
    defer { place.folder.remove() }
    let first = try await Self.start(place.env, "sleep 600")
    _ = try await Self.start(place.env, "sleep 600")
    let error = await #expect(throws: ExecutionError.self) {
      try await Self.start(place.env, "sleep 600")
    }
    #expect(error?.limit == "sessions")
    _ = await first.stop()
    _ = try await Self.start(place.env, "sleep 600")
    await place.env.cleanup()
    let brief = try Self.open(tier) { $0.limits.sessionSeconds = 0.2 }
    defer { brief.folder.remove() }
    let session = try await Self.start(brief.env, "sleep 600")
    #expect(await session.wait().failure?.limit == "time")
  }

  @Test(arguments: Tiers.here)
  func `the end of a session says what was enforced`(tier: SandboxPolicy.Tier) async throws {
    let place = try Self.open(tier)
    defer { place.folder.remove() }
    let session = try await Self.start(place.env, "true")
    let confinement = await session.wait().confinement
    #expect(confinement?.tier == tier.rawValue)
    #expect(confinement?.facts["network"]?.text == "off")
  }

  @Test func `an environment without sessions says so`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    var policy = SandboxPolicy(workspace: folder.path)
    policy.launcher = try Launcher.path.get()
    var environments: [any Environment] = [
      try TreeEnvironment.directory(at: folder.path),
      try TreeEnvironment.local(cwd: folder.path, launcher: "/no/such/launcher"),
    ]
    if let tier = Tiers.here.first {
      environments.append(try Box(tier) { $0.limits.sessions = 0 }.env)
    }
    for env in environments {
      #expect(!env.hasSessions)
      let error = await #expect(throws: ExecutionError.self) {
        try await env.startSession(.shell("true"), SessionOptions())
      }
      #expect(error?.code == .notSupported)
    }
  }
}
