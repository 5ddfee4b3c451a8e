import PerdureValue
import Testing

/// The verbs of installed plugins, and runs with what is installed.
@Suite struct InstalledPluginTests {
  private let folder = Folder()

  private func perdure(_ words: String...) -> Program.Finished { Program.run(words, in: folder) }

  /// Builds a version of the example.
  private func wordcount(_ version: String = "1.0.0") -> String {
    let name = "wordcount-\(version).c"
    let source = Program.runTool(
      ["sed", "s/1\\.0\\.0/\(version)/", Fixtures.root + "/examples/plugin-c/wordcount.c"],
      in: folder
    )
    folder.write(source.output, to: name)
    let plugin = folder.file("wordcount-\(version).so")
    let result = Program.runTool(
      [
        "cc", "-shared", "-fPIC", "-fvisibility=hidden", "-I",
        Fixtures.root + "/Sources/CPerdureABI/include", "-o", plugin, folder.file(name),
      ],
      in: folder
    )
    #expect(result.status == 0, "\(result.error)")
    return plugin
  }

  /// Makes a key, and signs a file with it.
  private func sign(_ path: String, as name: String = "me") {
    if !folder.has(name) {
      let key = ["minisign", "-G", "-W", "-p", folder.file("\(name).pub"), "-s", folder.file(name)]
      #expect(Program.runTool(key, in: folder).status == 0)
    }
    let signing = ["minisign", "-S", "-s", folder.file(name), "-m", path]
    #expect(Program.runTool(signing, in: folder).status == 0)
  }

  private func ask(_ more: String...) -> Program.Finished {
    let words = ["run", "--store", folder.file("s.sqlite"), "--faux", Fixtures.wordcountScript]
    return Program.run(words + more + ["How long is it?"], in: folder)
  }

  @Test func `an installed plugin is part of every run`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    #expect(ask().output == "It has 10 words, 2 lines.\n")
    let header = ask("--json").events.first
    #expect(header?["plugins"]?.array?.first?["id"] == "example.wordcount")
    #expect(header?["plugins"]?.array?.first?["installed"] == true)
  }

  @Test func `a run without installed plugins has none`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    #expect(ask("--no-plugins").output.contains("was not offered"))
  }

  @Test func `a disabled plugin is passed over until it is enabled`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    #expect(
      perdure("plugin", "disable", "example.wordcount").output
        == "example.wordcount 1.0.0 is disabled now\n"
    )
    #expect(ask().output.contains("was not offered"))
    #expect(perdure("plugin", "enable", "example.wordcount").status == 0)
    #expect(ask("--conversation", "new").output == "It has 10 words, 2 lines.\n")
  }

  @Test func `a plugin that is named takes the place of the installed one`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    let header = ask("--plugin", wordcount("2.0.0"), "--json").events.first
    #expect(header?["plugins"]?.array?.count == 1)
    #expect(header?["plugins"]?.array?.first?["version"] == "2.0.0")
  }

  @Test func `work goes on with the version that is installed then`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    let gate = Journal(in: folder)
    let script = Fixtures.gateScript(gate, in: folder)
    let running = Program.start(
      [
        "run", "--store", folder.file("g.sqlite"), "--plugin", Fixtures.safeGate, "--faux", script,
        "Wait",
      ],
      in: folder
    )
    #expect(gate.line() != nil)
    running.signal(9)
    _ = running.wait()
    #expect(
      perdure("plugin", "upgrade", wordcount("1.1.0"), "--allow-unsigned").status == 0
    )
    folder.write("", to: "gate")
    let resumed = perdure("resume", "--store", folder.file("g.sqlite"), "--json")
    #expect(resumed.status == 0, "\(resumed.error)")
    let plugins = resumed.events.first?["plugins"]?.array ?? []
    #expect(plugins.map { $0["version"] } == ["1.1.0", "1.0.0"])
  }

  @Test func `a signed plugin names its signer, and another signer is exit 5`() {
    let (first, second) = (wordcount(), wordcount("1.1.0"))
    sign(first)
    let installed = perdure("plugin", "install", first, "--key", folder.file("me.pub"))
    #expect(installed.status == 0, "\(installed.error)")
    #expect(installed.output.contains("trusted from now on"))
    sign(second, as: "other")
    let refused = perdure("plugin", "upgrade", second, "--key", folder.file("other.pub"), "--json")
    #expect(refused.status == 5)
    #expect(refused.error.contains("--replace-signer"))
    #expect(refused.error.contains(#""code":"plugin_refused""#))
  }

  @Test func `every verb gives one JSON object`() {
    let (first, second) = (wordcount(), wordcount("1.1.0"))
    let lines = [
      ["install", first, "--allow-unsigned"], ["list"], ["info", "example.wordcount"],
      ["upgrade", second, "--allow-unsigned"], ["rollback", "example.wordcount"], ["verify"],
      ["disable", "example.wordcount"], ["enable", "example.wordcount"],
      ["uninstall", "example.wordcount"],
    ]
    for words in lines {
      let result = Program.run(["plugin"] + words + ["--json"], in: folder)
      #expect(result.status == 0, "\(words): \(result.error)")
      #expect(result.events.count == 1 && result.events.first?.object != nil, "\(words)")
    }
  }

  @Test func `a plugin that is not as it was installed is exit 1`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    #expect(perdure("plugin", "verify").output == "the plugin is as it was installed\n")
    let info = perdure("plugin", "info", "example.wordcount", "--json").events.first
    let path = info?["path"]?.text ?? ""
    #expect(Program.runTool(["cp", "-f", wordcount("6.6.6"), path], in: folder).status == 0)
    let result = perdure("plugin", "verify")
    #expect(result.status == 1)
    #expect(result.output == "example.wordcount 1.0.0: its library is another file\n")
    #expect(ask().status == 5)
    #expect(ask().error.contains("perdure plugin verify example.wordcount"))
    #expect(ask("--no-plugins").status == 0)
  }

  @Test func `a damaged lock file is exit 3 and names the way out`() {
    #expect(perdure("plugin", "install", wordcount(), "--allow-unsigned").status == 0)
    folder.write("{", to: ".local/share/perdure/plugins/plugins.lock.json")
    for result in [perdure("plugin", "list"), ask()] {
      #expect(result.status == 3)
      #expect(result.error.contains("plugins.lock.json is damaged"))
      #expect(result.error.split(separator: "\n").count == 1)
    }
    #expect(ask("--no-plugins").status == 0)
  }

  @Test func `unknown ids and wrong options are named`() {
    let unknown = perdure("plugin", "info", "acme.crawl")
    #expect(unknown.status == 3)
    #expect(unknown.error.contains("the plugin acme.crawl is not installed"))
    let both = perdure("plugin", "uninstall", "a", "--drain", "--force")
    #expect(both.status == 2)
    #expect(perdure("plugin", "install", "/nowhere/x.so").status == 5)
  }

  @Test(arguments: ["list", "verify"])
  func `a folder of plugins that is named and not there is exit 3`(verb: String) {
    let absent = perdure("plugin", verb, "--plugins", folder.file("typo"))
    #expect(absent.status == 3)
    #expect(absent.error.contains("there is no folder of plugins at"))
    folder.write("", to: "file")
    #expect(perdure("plugin", verb, "--plugins", folder.file("file")).status == 3)
  }

  @Test func `a host that runs gets every change at once`() throws {
    let output = Journal(in: folder, named: "served")
    let store = ["--store", folder.file("s.sqlite")]
    let host = Program.start(
      ["serve", "--faux", Fixtures.wordcountScript] + store,
      in: folder,
      output: output
    )
    _ = try #require(output.line())
    func perdure(_ words: [String]) -> Program.Finished { Program.run(words + store, in: folder) }
    let prompt = ["run", "--conversation", "new", "How long is it?"]
    #expect(perdure(prompt).output.contains("was not offered"))
    let installed = perdure(["plugin", "install", wordcount(), "--allow-unsigned"])
    #expect(installed.status == 0, "\(installed.error)")
    #expect(perdure(prompt).output == "It has 10 words, 2 lines.\n")
    #expect(perdure(["plugin", "upgrade", wordcount("1.1.0"), "--allow-unsigned"]).status == 0)
    let list = perdure(["plugin", "list", "--json"]).events.first
    #expect(list?["plugins"]?.array?.first?["running"]?["version"] == "1.1.0")
    #expect(list?["plugins"]?.array?.first?["running"]?["isolation"] == "runner")
    #expect(perdure(prompt).output == "It has 10 words, 2 lines.\n")
    #expect(perdure(["plugin", "rollback", "example.wordcount"]).status == 0)
    #expect(perdure(["plugin", "uninstall", "example.wordcount"]).status == 0)
    #expect(perdure(prompt).output.contains("was not offered"))
    #expect(perdure(["close"]).status == 0)
    #expect(host.wait().status == 0)
  }

  @Test func `processes that install at once do not lose each other's work`() {
    let running = (0..<6).map { number -> Program.Running in
      let plugin = wordcount("1.0.\(number)")
      return Program.start(
        [
          "plugin", "install", plugin, "--allow-unsigned", "--plugins",
          folder.file("p\(number % 2)"),
        ],
        in: folder
      )
    }
    let statuses = running.map { $0.wait().status }.sorted()
    // One of each three is the first, and finds the id free.
    #expect(statuses == [0, 0, 5, 5, 5, 5])
    for place in ["p0", "p1"] {
      let list = perdure("plugin", "list", "--plugins", folder.file(place), "--json").events.first
      #expect(list?["plugins"]?.array?.count == 1)
      #expect(perdure("plugin", "verify", "--plugins", folder.file(place)).status == 0)
    }
  }
}
