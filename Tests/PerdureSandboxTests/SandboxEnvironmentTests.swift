import Foundation
import PerdureModel
import PerdureSandbox
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// The tiers that this machine has; that it has one is a test of its own.
enum Tiers {
  static let here: [SandboxPolicy.Tier] = {
    guard let path = try? Launcher.path.get(), let probe = try? SandboxProbe.run(launcher: path)
    else { return [] }
    return SandboxPolicy.Tier.allCases.filter { tier in
      probe.trials.contains { "\($0.tier)" == "\(tier)" && $0.isAvailable }
    }
  }()
}

@Suite struct SandboxEnvironmentTests {
  @Test func `this machine has a tier, or else nothing here is tested`() {
    #expect(!Tiers.here.isEmpty)
  }

  @Test(arguments: Tiers.here, EnvironmentConformance.cases)
  func `a sandbox is an environment`(
    tier: SandboxPolicy.Tier,
    test: EnvironmentConformance.Case
  ) async throws {
    // Cases make what is protected elsewhere.
    let box = try Box(tier) { $0.preset = .full }
    defer { box.remove() }
    let harness = EnvironmentHarness(box.env) { [box] path, target in
      let place = tier == .namespaces ? String(path.dropFirst("/workspace/".count)) : path
      try box.folder.link(tier == .namespaces ? place : box.below(place), to: target)
    }
    try await test.run(harness)
    await box.env.cleanup()
  }

  @Test(arguments: Tiers.here)
  func `a command sees what tools wrote, and tools what it wrote`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    try await box.env.writeFile("a.txt", "from a tool")
    let result = try await box.run("cat a.txt; echo note > b.txt; echo scratch > $TMPDIR/c.txt")
    #expect(result.output == "from a tool")
    #expect(try await box.env.readTextFile("b.txt") == "note\n")
    let temporary = tier == .namespaces ? "/tmp" : try await box.run("printf %s \"$TMPDIR\"").output
    #expect(try await box.env.readTextFile("\(temporary)/c.txt") == "scratch\n")
  }

  @Test(arguments: Tiers.here)
  func `neither a tool nor a command reaches a file outside`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let outside = try Folder()
    defer { outside.remove() }
    try outside.write("secret", "canary")
    let box = try Box(tier)
    defer { box.remove() }
    try box.folder.link("out", to: outside.at("secret"))
    for path in [outside.at("secret"), "out", "../../../../..\(outside.at("secret"))"] {
      await #expect(throws: FileError.self) { try await box.env.readTextFile(path) }
    }
    let result = try await box.run("cat \(outside.at("secret")) out; echo x > \(outside.at("new"))")
    #expect(result.output == "")
    // Where the tree is the sandbox's own, a folder of this name can be made in it.
    try? await box.env.writeFile(outside.at("secret"), "changed")
    try? await box.env.writeFile("out", "changed")
    #expect(try outside.text("secret") == "canary")
    #expect(!FileManager.default.fileExists(atPath: outside.at("new")))
  }

  @Test(arguments: Tiers.here)
  func `a workspace that is only read is written by nobody`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { $0.preset = .readOnly }
    defer { box.remove() }
    try box.folder.write("a.txt", "kept")
    await #expect(throws: FileError.self) { try await box.env.writeFile("a.txt", "changed") }
    await #expect(throws: FileError.self) { try await box.env.remove("a.txt") }
    let result = try await box.run("cat a.txt; echo changed > a.txt; echo > new")
    #expect(result.output == "kept")
    #expect(result.code != 0)
    #expect(try box.folder.text("a.txt") == "kept")
  }

  @Test(arguments: Tiers.here)
  func `tools leave protected paths as they are, whatever they are called`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    try FileManager.default.createDirectory(
      atPath: box.folder.at(".git/hooks"),
      withIntermediateDirectories: true
    )
    try box.folder.write(".git/config", "[core]")
    try box.folder.link("alias", to: ".git")
    for path in [
      ".git/hooks/post-checkout", ".git/config", "alias/config", ".GIT/hooks/x", ".mcp.json",
      ".vscode/tasks.json", "alias/../.git/./hooks/y",
    ] {
      let error = await #expect(throws: FileError.self) {
        try await box.env.writeFile(path, "evil")
      }
      #expect(error?.code == .permissionDenied)
    }
    await #expect(throws: FileError.self) {
      try await box.env.remove(".git", recursive: true, force: true)
    }
    await #expect(throws: FileError.self) { try await box.env.rename(".git", to: "moved") }
    try await box.env.writeFile("evil/hooks/x", "x")
    await #expect(throws: FileError.self) { try await box.env.rename("evil", to: ".vscode") }
    try await box.env.writeFile(".git/HEAD", "ref: refs/heads/main\n")
    #expect(try box.folder.text(".git/config") == "[core]")
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `commands leave protected paths as they are, and one that they make is told of`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { policy, folder in
      try FileManager.default.createDirectory(
        atPath: folder.at(".git/hooks"),
        withIntermediateDirectories: true
      )
      policy.hidden = ["hidden.txt"]
      try folder.write("hidden.txt", "canary")
    }
    defer { box.remove() }
    let result = try await box.run(
      "echo x > .git/hooks/a; mv .git gone; echo y > .git/config; cat hidden.txt; ls .git"
    )
    #expect(result.output == "config\nhooks\n")
    #expect(!FileManager.default.fileExists(atPath: box.folder.at(".git/hooks/a")))
    let facts = result.confinement?.facts ?? [:]
    #expect(
      facts["unprotected"]?.array?.contains {
        $0["path"]?.text == "/workspace/.git/config" && $0["reason"]?.text == "created"
      } == true
    )
    #expect(try await box.env.readTextFile("hidden.txt") == "")
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `what the host replaces while a sandbox is there stays protected and hidden`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { policy, folder in
      try FileManager.default.createDirectory(
        atPath: folder.at(".git"),
        withIntermediateDirectories: true
      )
      try FileManager.default.createDirectory(
        atPath: folder.at("keys"),
        withIntermediateDirectories: true
      )
      policy.hidden = ["hidden.txt", "keys"]
      try folder.write(".git/config", "[core]")
      try folder.write("hidden.txt", "canary")
      try folder.write("keys/inside", "canary")
    }
    defer { box.remove() }
    #expect(try await box.run("cat hidden.txt; ls keys").output == "")
    // As git and editors do.
    for (name, content) in [(".git/config", "[user]"), ("hidden.txt", "canary 2")] {
      try box.folder.write("new", content)
      let moved = unsafe rename(box.folder.at("new"), box.folder.at(name))
      #expect(moved == 0)
    }
    try FileManager.default.removeItem(atPath: box.folder.at("keys"))
    try FileManager.default.createDirectory(
      atPath: box.folder.at("keys"),
      withIntermediateDirectories: true
    )
    try box.folder.write("keys/inside", "canary 3")
    try box.folder.link("alias", to: "hidden.txt")
    let result = try await box.run(
      """
      echo evil > .git/config; mv .git gone; cat hidden.txt alias keys/inside; ls keys
      echo evil > hidden.txt; mv hidden.txt moved; echo done
      """
    )
    #expect(result.output == "done\n")
    #expect(try box.folder.text(".git/config") == "[user]")
    #expect(try box.folder.text("hidden.txt") == "canary 2")
    for path in ["hidden.txt", "HIDDEN.TXT", "alias", "keys/inside"] {
      await #expect(throws: FileError.self) { try await box.env.readTextFile(path) }
      await #expect(throws: FileError.self) { try await box.env.writeFile(path, "evil") }
    }
    for path in ["hidden.txt", "keys"] {
      await #expect(throws: FileError.self) { try await box.env.rename(path, to: "moved") }
      await #expect(throws: FileError.self) {
        try await box.env.remove(path, recursive: true, force: false)
      }
    }
    await #expect(throws: FileError.self) { try await box.env.openFolder("keys") }
    let bounds = ListingBounds(maxEntries: 100)
    await #expect(throws: FileError.self) { try await box.env.listFiles("keys", bounds) }
    let listed = try await box.env.listFiles(".", bounds).entries.map { $0.path }
    #expect(listed.contains("keys") && !listed.contains { $0.hasPrefix("keys/") })
  }

  @Test(arguments: Tiers.here)
  func `a result says what was enforced`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    let confinement = try #require(try await box.run("true").confinement)
    #expect(confinement.tier == tier.rawValue)
    let enforced = confinement.facts["enforced"]?.array?.compactMap { $0.text } ?? []
    #expect(enforced.contains("tier \(tier)") && enforced.contains("killTree"))
    #expect(confinement.facts["network"]?.text == "off")
  }

  @Test(arguments: Tiers.here)
  func `nothing that a command started outlives its call`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    let mark = "9\(UInt32.random(in: 10_000...99_999))"
    let result = try await box.run(
      "(trap '' TERM HUP; setsid sleep \(mark) & sleep \(mark) &) > /dev/null 2>&1; echo done"
    )
    #expect(result.output == "done\n")
    #expect(!Processes.named("sleep\0\(mark)"))
    #expect(result.confinement?.facts["leftover"] == true)
  }

  @Test(arguments: Tiers.here)
  func `a timeout ends what ignores signals, and all it started`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { $0.limits.grace = 0.2 }
    defer { box.remove() }
    let mark = "8\(UInt32.random(in: 10_000...99_999))"
    let error = await #expect(throws: ExecutionError.self) {
      try await box.run(
        "trap '' TERM; setsid sleep \(mark) & while :; do sleep 1; done",
        timeout: 0.3
      )
    }
    #expect(error?.code == .timeout)
    #expect(!Processes.named("sleep\0\(mark)"))
  }

  @Test(arguments: Tiers.here)
  func `more output than allowed ends the command, and the error names the limit`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { $0.limits.output = 1 << 20 }
    defer { box.remove() }
    let error = await #expect(throws: ExecutionError.self) { try await box.run("yes") }
    #expect(error?.limit == "output")
    let small = try await box.run("head -c 1048576 /dev/zero | wc -c")
    #expect(small.output == "1048576\n")
  }

  @Test(arguments: Tiers.here)
  func `what a command made that was ended is told of`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier) { $0.limits.output = 1 << 20 }
    defer { box.remove() }
    let error = await #expect(throws: ExecutionError.self) {
      try await box.run("mkdir .git; echo x > .git/config; yes")
    }
    #expect(error?.confinement?.tier == tier.rawValue)
    // The tier landlock protects none, and says so of its own accord.
    guard tier == .namespaces else { return }
    let open = error?.confinement?.facts["unprotected"]?.array ?? []
    #expect(open.contains(["path": "/workspace/.git/config", "reason": "created"]))
  }

  @Test(arguments: Tiers.here)
  func `a sandbox that was closed runs nothing in the background`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    await box.env.close()
    await #expect(throws: ExecutionError.self) {
      try await box.env.startSession(.shell("sleep 100"), SessionOptions())
    }
  }

  @Test(arguments: Tiers.here)
  func `more memory than allowed ends the command, and the error names the limit`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { $0.limits.memory = 64 << 20 }
    defer { box.remove() }
    let error = await #expect(throws: ExecutionError.self) {
      try await box.run("python3 -c 'import time; a = bytearray(300 << 20); time.sleep(60)'")
    }
    #expect(error?.limit == "memory")
  }

  /// A limit, how it is set so low that it is reached, and a line that reaches it.
  struct LimitCase: Sendable, CustomStringConvertible {
    var description: String
    var line: String
    var set: @Sendable (inout SandboxPolicy.Limits) -> Void
  }

  static let limitCases = [
    LimitCase(description: "file", line: "exec head -c 100000 /dev/zero > f") {
      $0.fileSize = 4_096
    },
    LimitCase(description: "cpu", line: "while :; do :; done") { $0.processorSeconds = 1 },
    LimitCase(description: "disk", line: "sleep 600") { $0.diskFloor = 1 << 60 },
  ]

  @Test(arguments: Tiers.here, limitCases)
  func `a limit that is reached ends the command, and the error names it`(
    tier: SandboxPolicy.Tier,
    test: LimitCase
  ) async throws {
    let box = try Box(tier) { test.set(&$0.limits) }
    defer { box.remove() }
    let error = await #expect(throws: ExecutionError.self) { try await box.run(test.line) }
    #expect(error?.limit == test.description)
  }

  @Test(arguments: Tiers.here)
  func `a command that names no timeout has that of the policy`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier) { $0.limits.seconds = 0.3 }
    defer { box.remove() }
    let error = await #expect(throws: ExecutionError.self) { try await box.run("sleep 600") }
    #expect(error?.code == .timeout)
  }

  @Test(arguments: Tiers.here)
  func `64 commands at once do not see each other's output`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<64 {
        group.addTask {
          let result = try await box.run(
            "for i in 1 2 3 4 5; do echo \(number); echo e\(number) >&2; done; exit \(number)"
          )
          #expect(result.output == String(repeating: "\(number)\n", count: 5))
          #expect(result.errors == String(repeating: "e\(number)\n", count: 5))
          #expect(result.code == Int32(number))
        }
      }
      try await group.waitForAll()
    }
  }

  @Test(arguments: Tiers.here)
  func `commands that cannot be say why`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    #expect(try await box.run("").code == 0)
    let long = "echo " + String(repeating: "x", count: 2 << 20)
    let error = await #expect(throws: ExecutionError.self) { try await box.run(long) }
    #expect(error?.code == .spawnError)
    #expect(error?.message == "the command is too long")
    let huge = await #expect(throws: ExecutionError.self) {
      try await box.run(String(repeating: "x", count: 9 << 20))
    }
    #expect(huge?.code == .spawnError)
  }

  @Test(arguments: Tiers.here)
  func `no key of the host's variables is in a command's`(tier: SandboxPolicy.Tier) async throws {
    unsafe setenv("PERDURE_TEST_API_KEY", "canary-key", 1)
    let box = try Box(tier)
    defer { box.remove() }
    let result = try await box.run("env; cat /proc/1/environ /proc/self/environ")
    #expect(!result.output.contains("canary-key"))
  }

  @Test(arguments: Tiers.here)
  func `tools open no file of the kernel`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    try box.folder.link("magic", to: "/proc/self/root/etc/passwd")
    for path in ["/proc/self/environ", "/proc/1/mem", "/proc/kallsyms", "magic"] {
      await #expect(throws: FileError.self) { try await box.env.readTextFile(path) }
    }
  }

  @Test(arguments: Tiers.here)
  func `a cache outlives the sandbox that filled it`(tier: SandboxPolicy.Tier) async throws {
    let cache = try Folder()
    defer { cache.remove() }
    for word in ["first", "second"] {
      let box = try Box(tier) { $0.cache = cache.path }
      defer { box.remove() }
      let line = "mkdir -p $PIP_CACHE_DIR && cat $PIP_CACHE_DIR/x; echo \(word) >> $PIP_CACHE_DIR/x"
      #expect(try await box.run(line).output == (word == "first" ? "" : "first\n"))
    }
    #expect(try cache.text("pip/x") == "first\nsecond\n")
  }

  @Test(arguments: Tiers.here)
  func `a workspace that another folder takes the place of stays the workspace`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let outside = try Folder()
    defer { outside.remove() }
    try outside.write("secret", "canary")
    let box = try Box(tier)
    defer { box.remove() }
    try box.folder.write("own", "own")
    try FileManager.default.moveItem(atPath: box.folder.path, toPath: box.folder.path + ".moved")
    defer { try? FileManager.default.removeItem(atPath: box.folder.path + ".moved") }
    try FileManager.default.createSymbolicLink(
      atPath: box.folder.path,
      withDestinationPath: outside.path
    )
    await #expect(throws: FileError.self) { try await box.env.readTextFile("secret") }
    let output = try? await box.run("cat secret own").output
    #expect(output == (tier == .namespaces ? "own" : nil))
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `a sandbox that was ended from outside says so, and a slot builds it again`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let slot = try SandboxSlot(Box.policy(folder, tier))
    let first = try await slot.environment()
    let same = try await slot.environment()
    #expect(same === first)
    await first.close()
    let error = await #expect(throws: ExecutionError.self) {
      try await first.execute(.shell("true"), ExecutionOptions(), nil)
    }
    #expect(error?.code == .shellUnavailable || error?.code == .spawnError)
    while first.isAlive { await Task.yield() }
    let result = try await slot.environment().execute(.shell("exit 4"), ExecutionOptions(), nil)
    #expect(result.exitCode == 4)
    await slot.close()
  }

  @Test(arguments: Tiers.here)
  func `what a sandbox kept on the host goes with it`(tier: SandboxPolicy.Tier) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    let spill = ExecutionOptions.Spill(afterBytes: 10, afterLines: 10)
    let result = try await box.env.execute(.shell("seq 1 100"), ExecutionOptions(spill: spill), nil)
    let path = try #require(result.spillPath)
    #expect(try await box.run("head -n 1 \(path); echo x >> \(path)").output == "1\n")
    let kept = try #require(Kept.output(named: String(path.split(separator: "/").last ?? "")))
    await box.env.close()
    #expect(!FileManager.default.fileExists(atPath: kept))
  }

  @Test(arguments: Tiers.here)
  func `tasks of the host keep the rights of the host`(tier: SandboxPolicy.Tier) async throws {
    let before = Self.rights
    let box = try Box(tier)
    defer { box.remove() }
    let watch = try await box.env.watch([WatchTarget(".", recursive: true)]) { _ in }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<100 {
        group.addTask {
          try await box.env.writeFile("f\(number)", "x")
          #expect(Self.rights == before)
          await Task.yield()
          _ = try await box.env.listFiles(".", ListingBounds(maxEntries: 1_000))
          #expect(Self.rights == before)
        }
      }
      try await group.waitForAll()
    }
    await watch.close()
    #expect(Self.rights == before)
  }

  /// What the thread that asks may do.
  private static var rights: [String] {
    let status = (try? String(contentsOfFile: "/proc/thread-self/status", encoding: .utf8)) ?? ""
    return status.split(separator: "\n").map { String($0) }.filter { line in
      ["Uid:", "Gid:", "Groups:", "CapEff:", "NoNewPrivs:"].contains { line.hasPrefix($0) }
    }
  }

  @Test(arguments: Tiers.here.filter { $0 == .landlock && geteuid() == 0 })
  func `tools of root in its own folder have no capability`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    try box.folder.write("foreign", "canary")
    try box.folder.write("own", "own")
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o600, .ownerAccountID: 12_345, .groupOwnerAccountID: 12_345],
      ofItemAtPath: box.folder.at("foreign")
    )
    let error = await #expect(throws: FileError.self) {
      try await box.env.readTextFile("foreign")
    }
    #expect(error?.code == .permissionDenied)
    #expect(try await box.env.readTextFile("own") == "own")
    #expect(try await box.run("cat foreign own").output == "own")
  }

  // MARK: Errors

  @Test func `a policy that cannot be is one sentence`() throws {
    let folder = try Folder()
    defer { folder.remove() }
    var policies: [SandboxPolicy] = []
    for rule in ["", "*", "a..b", "http://example.com", "*.10.0.0.1", "0x7f.1", "example.com."] {
      policies.append(SandboxPolicy(workspace: folder.path, network: .allow([rule])))
    }
    policies.append(SandboxPolicy(workspace: folder.path, network: .allow([])))
    policies.append(
      SandboxPolicy(workspace: folder.path, tier: .landlock, network: .allow(["example.com"]))
    )
    policies.append(SandboxPolicy(workspace: folder.path, tier: .landlock, network: .loopback))
    policies.append(SandboxPolicy(workspace: folder.at("missing")))
    policies.append(SandboxPolicy(workspace: "/"))
    var hiding = SandboxPolicy(workspace: folder.path)
    hiding.hidden = ["../up"]
    policies.append(hiding)
    var writing = SandboxPolicy(workspace: folder.path)
    writing.writable = ["relative"]
    policies.append(writing)
    for policy in policies {
      let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
      #expect(error?.code == .sandboxPolicy)
    }
  }

  @Test(arguments: SandboxPolicy.Tier.allCases)
  func `what would be shown a second time is refused`(tier: SandboxPolicy.Tier) throws {
    let folder = try Folder()
    defer { folder.remove() }
    for name in ["app/part", "more/part"] {
      try FileManager.default.createDirectory(
        atPath: folder.at(name),
        withIntermediateDirectories: true
      )
    }
    try folder.write("app/.env", "canary")
    try folder.link("alias", to: folder.path)
    let (app, more) = (folder.at("app"), folder.at("more"))
    var cases: [(inout SandboxPolicy) -> Void] = []
    for path in [folder.path, folder.at("alias"), app, folder.at("app/part")] {
      cases.append { $0.writable = [path] }
      cases.append { $0.cache = path }
    }
    cases.append { $0.writable = [more, folder.at("more/part")] }
    cases.append { $0.writable = [folder.at("more/part"), more] }
    if tier == .namespaces {
      cases.append {
        $0.hidden = [".env"]
        $0.readable = [folder.path]
      }
    }
    for change in cases {
      var policy = SandboxPolicy(workspace: app, tier: tier)
      policy.launcher = try Launcher.path.get()
      change(&policy)
      let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
      #expect(error?.code == .sandboxPolicy)
      #expect(error?.message.contains("twice") == true, "\(error?.message ?? "")")
    }
  }

  @Test func `what cannot be hidden is refused by its name`() throws {
    let folder = try Folder()
    defer { folder.remove() }
    try folder.write("real", "canary")
    try folder.link("link", to: "real")
    for path in ["missing.env", "real/below", "link"] {
      var policy = SandboxPolicy(workspace: folder.path)
      policy.launcher = try Launcher.path.get()
      policy.hidden = [path]
      let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
      #expect(error?.code == .sandboxPolicy)
      #expect(error?.message.contains(path) == true)
    }
  }

  @Test(arguments: Tiers.here)
  func `a link to a launcher in a folder that commands write is refused`(
    tier: SandboxPolicy.Tier
  ) throws {
    let folder = try Folder()
    defer { folder.remove() }
    try folder.link("launcher", to: Launcher.path.get())
    var policy = SandboxPolicy(workspace: folder.path, tier: tier)
    policy.launcher = folder.at("launcher")
    let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
    #expect(error?.code == .sandboxPolicy)
    let elsewhere = try Folder()
    defer { elsewhere.remove() }
    try elsewhere.link("launcher", to: Launcher.path.get())
    policy.launcher = elsewhere.at("launcher")
    _ = try TreeEnvironment.sandbox(policy)
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `a sandbox is not built again on another folder`(tier: SandboxPolicy.Tier) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    try FileManager.default.createDirectory(
      atPath: folder.at("app"),
      withIntermediateDirectories: true
    )
    var policy = SandboxPolicy(workspace: folder.at("app"), tier: tier)
    policy.launcher = try Launcher.path.get()
    let slot = try SandboxSlot(policy)
    let first = try await slot.environment()
    await first.close()
    while first.isAlive { await Task.yield() }
    try FileManager.default.moveItem(atPath: folder.at("app"), toPath: folder.at("old"))
    try FileManager.default.createDirectory(
      atPath: folder.at("app"),
      withIntermediateDirectories: true
    )
    let error = await #expect(throws: PerdureError.self) { try await slot.environment() }
    #expect(error?.code == .sandboxPolicy)
    await slot.close()
  }

  @Test(arguments: Tiers.here.filter { $0 == .namespaces })
  func `all who need a sandbox that has ended get the same new one, and none after the end`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let slot = try SandboxSlot(Box.policy(folder, tier))
    let first = try await slot.environment()
    await first.close()
    while first.isAlive { await Task.yield() }
    let ids = await withTaskGroup(of: String?.self) { group in
      for _ in 0..<8 { group.addTask { try? await slot.environment().id } }
      return await group.reduce(into: Set<String?>()) { $0.insert($1) }
    }
    #expect(ids.count == 1 && !ids.contains(nil) && !ids.contains(first.id))
    await slot.close()
    let error = await #expect(throws: PerdureError.self) { try await slot.environment() }
    #expect(error?.code == .sandboxUnavailable)
  }

  @Test(arguments: Tiers.here)
  func `closing waits for what runs, and removes trees of any depth`(
    tier: SandboxPolicy.Tier
  ) async throws {
    let box = try Box(tier)
    defer { box.remove() }
    let spill = ExecutionOptions.Spill(afterBytes: 10, afterLines: 10)
    let kept = try await box.env.execute(.shell("seq 1 100"), ExecutionOptions(spill: spill), nil)
    let name = try #require(kept.spillPath).split(separator: "/").last ?? ""
    let output = try #require(Kept.output(named: String(name)))
    let scratch = URL(filePath: output).deletingLastPathComponent().deletingLastPathComponent().path
    if tier == .landlock {
      let line = "cd $TMPDIR; i=0; while [ $i -lt 600 ]; do mkdir d; cd d; i=$((i + 1)); done"
      #expect(try await box.run(line).code == 0)
    }
    let running = Mutex(true)
    let (begun, announce) = AsyncStream.makeStream(of: Void.self)
    let task = Task {
      _ = try? await box.env.execute(.shell("echo begun; sleep 77777"), ExecutionOptions()) { _ in
        announce.yield()
      }
      running.withLock { $0 = false }
    }
    for await _ in begun { break }
    await box.env.close()
    #expect(!FileManager.default.fileExists(atPath: scratch))
    await task.value
    #expect(!running.withLock { $0 })
    let late = await #expect(throws: ExecutionError.self) { try await box.run("true") }
    #expect(late != nil)
  }

  @Test(arguments: [
    ("#!/bin/sh\nexit 0\n", "without a word"), ("#!/bin/sh\nexec sleep 7777\n", "took longer"),
    ("#!/bin/sh\nexit 7\n", "status 7"), ("#!/bin/sh\nkill -9 $$\n", "status 137"),
    ("#!/bin/sh\necho hello >&4\n", "another version"),
    (
      "#!/bin/sh\necho 'failed policy 22 not a policy of version 2; host and launcher are of different versions' >&4\n",
      "another version"
    ),
  ])
  func `a launcher that does not do as one does is one sentence`(
    script: String,
    part: String
  ) throws {
    let folder = try Folder()
    defer { folder.remove() }
    try folder.write("launcher", script)
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o755],
      ofItemAtPath: folder.at("launcher")
    )
    let workspace = try Folder()
    defer { workspace.remove() }
    var policy = SandboxPolicy(workspace: workspace.path)
    policy.launcher = folder.at("launcher")
    let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
    #expect(error?.code == .sandboxUnavailable)
    #expect(error?.message.contains(part) == true)
    #expect(error?.hint != nil)
  }

  @Test(arguments: SandboxPolicy.Tier.allCases)
  func `a launcher that commands could replace is refused`(tier: SandboxPolicy.Tier) throws {
    let folder = try Folder()
    defer { folder.remove() }
    try FileManager.default.copyItem(atPath: Launcher.path.get(), toPath: folder.at("launcher"))
    let elsewhere = try Folder()
    defer { elsewhere.remove() }
    try elsewhere.link("launcher", to: folder.at("launcher"))
    for path in [folder.at("launcher"), elsewhere.at("launcher")] {
      var policy = SandboxPolicy(workspace: folder.path, tier: tier)
      policy.launcher = path
      let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
      #expect(error?.code == .sandboxPolicy)
    }
  }

  @Test func `a launcher that is missing is one sentence with its place`() throws {
    let folder = try Folder()
    defer { folder.remove() }
    var policy = SandboxPolicy(workspace: folder.path)
    policy.launcher = folder.at("launcher")
    let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
    #expect(error?.code == .sandboxUnavailable)
    #expect(error?.message.contains(folder.at("launcher")) == true)
  }

  @Test(arguments: Tiers.here.filter { $0 == .landlock })
  func `what a tier cannot give is an error with stage, number and remedy, and no weaker sandbox`(
    tier: SandboxPolicy.Tier
  ) throws {
    let folder = try Folder()
    defer { folder.remove() }
    var policy = try Box.policy(folder, tier)
    policy.requires = [.processes]
    let error = #expect(throws: PerdureError.self) { try TreeEnvironment.sandbox(policy) }
    #expect(error?.code == .sandboxUnavailable)
    #expect(error?.details?["stage"]?.text == "require")
    #expect(error?.details?["errno"]?.int != nil)
    #expect(error?.hint != nil)
  }
}

/// A sandbox on a folder of its own.
final class Box: Sendable {
  let folder: Folder
  let env: TreeEnvironment

  /// The policy of a workspace that the tests' own launcher gives.
  static func policy(_ folder: Folder, _ tier: SandboxPolicy.Tier) throws -> SandboxPolicy {
    var policy = SandboxPolicy(workspace: folder.path, tier: tier)
    policy.launcher = try Launcher.path.get()
    return policy
  }

  convenience init(
    _ tier: SandboxPolicy.Tier,
    _ change: (inout SandboxPolicy) -> Void = { _ in }
  ) throws {
    try self.init(tier) { policy, _ in change(&policy) }
  }

  init(
    _ tier: SandboxPolicy.Tier,
    resolve: @escaping NetworkResolver = { NetworkAddress.resolve($0) },
    _ change: (inout SandboxPolicy, Folder) throws -> Void
  ) throws {
    folder = try Folder()
    var policy = try Box.policy(folder, tier)
    // Whoever takes a command's output may wait for long where many tests run.
    policy.limits.seconds = 3_600
    try change(&policy, folder)
    env = try TreeEnvironment.sandbox(policy, resolve: resolve)
  }

  func remove() { folder.remove() }

  /// A path of the machine relative to the folder.
  func below(_ path: String) -> String { String(path.dropFirst(folder.path.count + 1)) }

  struct Outcome {
    var code: Int32
    var output: String
    var errors: String
    var confinement: Confinement?
  }

  func run(_ line: String, timeout: Double? = nil) async throws -> Outcome {
    let chunks = Mutex<[OutputChunk]>([])
    let result = try await env.execute(.shell(line), ExecutionOptions(timeout: timeout)) { chunk in
      chunks.withLock { $0.append(chunk) }
    }
    func text(_ stream: OutputChunk.Stream) -> String {
      chunks.withLock { $0 }.filter { $0.stream == stream }.map { $0.text }.joined()
    }
    return Outcome(
      code: result.exitCode,
      output: text(.stdout),
      errors: text(.stderr),
      confinement: result.confinement
    )
  }
}

enum Processes {
  /// Whether a process of the machine has a command line that begins so; words are followed by zeros.
  static func named(_ line: String) -> Bool {
    let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return all.contains { number in
      guard UInt32(number) != nil,
        let bytes = FileManager.default.contents(atPath: "/proc/\(number)/cmdline")
      else { return false }
      return String(decoding: bytes, as: UTF8.self).hasPrefix(line)
    }
  }
}

enum Kept {
  /// The path on the host of an output that a sandbox keeps.
  static func output(named name: String) -> String? {
    let base = FileManager.default.temporaryDirectory.path
    let folders = (try? FileManager.default.contentsOfDirectory(atPath: base)) ?? []
    return folders.map { "\(base)/\($0)/output/\(name)" }.first {
      FileManager.default.fileExists(atPath: $0)
    }
  }
}
