import Glibc
import PerdureValue
import Testing

/// `perdure plugin check`, tried on plugins that break one promise each, and on good ones.
@Suite struct PluginCheckTests {
  private let folder = Folder()

  /// A plugin of the folder of broken ones, with the test that must find it and what it says.
  struct Broken: Sendable, CustomTestStringConvertible {
    var name: String
    var test: String
    var words: String

    init(_ name: String, _ test: String, _ words: String) {
      self.name = name
      self.test = test
      self.words = words
    }

    var testDescription: String { name }
  }

  static let broken: [Broken] = [
    Broken("two_exports", "file/exports", "such as helper"),
    Broken("shares_statics", "file/exports", "unique symbol"),
    Broken("no_note", "file/note", "has no note"),
    Broken("no_manifest", "file/manifest", "has no manifest"),
    Broken("disagrees", "file/agreement", "c in its note and rust in its manifest"),
    Broken("thread_in_entry", "entry/quiet", "starts 1 threads"),
    Broken("writes_past_out", "entry/small", "went past the 24 bytes of pdr_plugin"),
    Broken("exact_size", "entry/later", "its entry function fails with unsupported"),
    Broken("unchecked_table", "entry/tables", "SIGSEGV"),
    Broken("any_table", "entry/query", "gives a table for the name"),
    Broken("never_stops", "entry/twice", "does not say lifecycle.stopped"),
    Broken("second_activation", "lifecycle/repeat", "in life 2 of one mapping"),
    Broken("leaks_thread", "lifecycle/threads", "threads more"),
    Broken("leaks_descriptor", "lifecycle/descriptors", "90 descriptors more"),
    Broken("needs_activation", "lifecycle/unused", "SIGSEGV"),
    Broken("late_completion", "lifecycle/in-flight", "after it had said that it was stopped"),
    Broken("calls_after_destroy", "lifecycle/silence", "invoke.start after it was destroyed"),
    Broken("returns_junk", "calls/valid", "invalid JSON"),
    Broken("emits_junk", "calls/valid", "text that is no UTF-8"),
    Broken("exits", "calls/valid", "ended the process with the status 3"),
    Broken("overflows", "calls/valid", "SIGSEGV"),
    Broken("refuses_settings", "calls/valid", "n must be 2"),
    Broken("crashes_on_invalid", "calls/invalid", "SIGSEGV"),
    Broken("undeclared", "calls/targets", "hook:beforeTool is declared"),
    Broken("no_handler", "calls/targets", "tool:count is declared"),
    Broken("unnamed_tool", "calls/handlers", "it answers tool:cuont"),
    Broken("unnamed_hook", "calls/handlers", "it answers hook:afterTool"),
    Broken("unnamed_state", "calls/handlers", "it answers snapshot"),
    Broken("mismatched", "calls/targets", "the manifest names tool:count, which has no handler"),
    Broken("double_completion", "calls/once", "more than once"),
    Broken("blocks_in_start", "calls/start", "it should take less than 50"),
    Broken("ignores_cancel", "calls/cancel", "its grace, after it was cancelled"),
    Broken("ignores_cancel", "calls/deadline", "its grace, after it was cancelled"),
    Broken("one_call", "calls/limit", "tool:echo"),
    Broken("ignores_credit", "calls/back-pressure", "without credit"),
    Broken("accepts_unknown", "calls/unknown", "accepted and never completed"),
    Broken("reads_deadline", "calls/short", "went past the 48 bytes of a pdr_call"),
    Broken("thread_state", "threads/parallel", "SIGSEGV"),
    Broken("races_cancel", "threads/race", "more than once"),
    Broken("writes_input", "memory/inputs", "wrote to the input of tool:echo"),
    Broken("reads_past", "memory/inputs", "went past the"),
    Broken("keeps_pointer", "memory/inputs", "after it had to be given back"),
    Broken("release_calls_host", "memory/release", "from a release function"),
    Broken("needs_operations", "faults/failing", "is not completed"),
    Broken("waits_for_refused", "faults/refused", "is not completed"),
    Broken("silent_error", "faults/errors", "no sentence"),
    Broken("one_per_process", "upgrade/copies", "activation fails with busy"),
    Broken("wrong_state", "upgrade/state", "version 2"),
    Broken("no_migration", "upgrade/migrations", "task.migrate:broken.job"),
    Broken("knows_its_process", "isolation/same", "perdure-runner"),
    Broken("no_description", "docs/descriptions", "has no description"),
    Broken("bad_example", "docs/examples", "does not fit"),
    Broken("fails_selftest", "docs/selftest", "its own check table fails: empty"),
  ]

  private func build(_ name: String) -> String {
    let isCpp = ["mismatched", "shares_statics"].contains(name)
    let plugin = folder.file(name + ".so")
    let include = Fixtures.root + "/Sources/CPerdureABI/include"
    // The standard library would export more than one function, which is another mistake.
    let exports = name == "mismatched" ? ["-Wl,--version-script=\(include)/perdure.map"] : []
    let result = Program.runTool(
      [
        isCpp ? "g++" : "cc", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-pthread", "-I",
        include, "-o", plugin,
        Fixtures.root + "/Tests/Fixtures/Broken/\(name)." + (isCpp ? "cpp" : "c"),
      ] + exports,
      in: folder
    )
    precondition(result.status == 0, result.error)
    return plugin
  }

  private func check(_ plugin: String, _ options: [String]) -> (status: Int32, report: JSON) {
    let result = Program.run(["plugin", "check", plugin, "--json"] + options, in: folder)
    return (result.status, result.events.first ?? .null)
  }

  private func findings(_ report: JSON) -> [JSON] { report["findings"]?.array ?? [] }

  @Test(arguments: broken)
  func `a broken promise is found by the test of it`(plugin: Broken) throws {
    let (status, report) = check(build(plugin.name), ["--group", plugin.test, "--reproduce", "7"])
    #expect(status == 5)
    let finding = try #require(findings(report).first { $0["name"]?.text == plugin.test })
    #expect(finding["outcome"] == "failed")
    let reason = finding["reason"]?.text ?? ""
    #expect(reason.contains(plugin.words), "\(reason)")
    #expect(finding["remedy"]?.text?.isEmpty == false)
  }

  @Test func `each file of the folder of broken plugins is in the table`() {
    let list = Program.runTool(["ls", Fixtures.root + "/Tests/Fixtures/Broken"], in: folder)
    let names = list.output.split(separator: "\n").filter { $0 != "broken.h" }
      .map { String($0.prefix { $0 != "." }) }
    #expect(Set(names) == Set(Self.broken.map(\.name)))
  }

  @Test(arguments: [
    "examples/plugin-c/wordcount.c", "examples/plugin-c/careful.c", "examples/recovery/slow.c",
  ])
  func `a good plugin passes`(source: String) {
    let plugin = Fixtures.compile(source, as: "good.so", in: folder)
    let (status, report) = check(plugin, ["--only-failed", "--reproduce", "7"])
    #expect(status == 0)
    #expect(findings(report) == [])
    #expect((report["tests"]?.int ?? 0) > 35)
  }

  @Test(arguments: ["c", "cpp", "rust"])
  func `the example of each kit passes`(language: String) {
    let build = Fixtures.root + "/examples/plugin-\(language)/build"
    // Compilers may lie in the folder of the user.
    let variables = ["PATH", "HOME"].map { (name: String) -> String in
      guard let value = unsafe getenv(name) else { return "\(name)=" }
      return "\(name)=" + (unsafe String(cString: value))
    }
    let built = Program.runTool(variables + [build, folder.path], in: folder)
    #expect(built.status == 0, "\(built.error)")
    let (status, report) = check(folder.file("notes.so"), ["--only-failed", "--reproduce", "7"])
    #expect(status == 0)
    #expect(findings(report) == [])
  }

  @Test func `the code of a refused file is not run`() {
    let (status, report) = check(build("no_note"), [])
    #expect(status == 5)
    let others = findings(report).filter { $0["group"] != "file" }
    #expect(others.count > 25)
    #expect(others.allSatisfy { $0["outcome"] == "skipped" })
  }

  @Test func `a test says how long it took`() {
    let report = check(build("returns_junk"), ["--group", "calls/once"]).report
    #expect((findings(report).first?["ms"]?.int ?? 0) > 0)
  }

  @Test func `a seed makes the same inputs again`() {
    let plugin = build("returns_junk")
    let reasons = [1, 2].map { _ in
      findings(check(plugin, ["--group", "calls/valid", "--reproduce", "41"]).report)
        .first?["reason"]
    }
    #expect(reasons[0] != nil && reasons[0] == reasons[1])
    let other = check(plugin, ["--group", "calls/valid", "--reproduce", "42"]).report
    #expect(findings(other).first?["reason"] != reasons[0])
  }

  @Test func `people are told what is wrong and what to do`() {
    let result = Program.run(
      ["plugin", "check", build("silent_error"), "--only-failed", "--reproduce", "7"],
      in: folder
    )
    #expect(result.status == 5)
    let lines = result.output.split(separator: "\n")
    #expect(lines.count == 3)
    #expect(lines[0].hasPrefix("FAILED  faults/errors"))
    #expect(lines[0].contains("; pass a pdr_err with a message"))
    #expect(lines[1].hasPrefix("test.broken 1.0.0: "))
    #expect(lines[1].hasSuffix(" 1 failed, seed 7"))
  }

  @Test func `tests can run in the process of a debugger`() {
    let (status, report) = check(build("silent_error"), ["--in-process", "--group", "faults"])
    #expect(status == 5)
    #expect(findings(report).filter { $0["outcome"] == "failed" }.count == 1)
  }

  @Test func `an unknown group is a mistake of usage`() {
    let result = Program.run(["plugin", "check", "x.so", "--group", "memroy"], in: folder)
    #expect(result.status == 2)
    #expect(result.error.contains("memory"))
  }

  @Test func `a file that is no plugin is refused`() {
    let path = folder.write("not a library", to: "text.so")
    let (status, report) = check(path, ["--only-failed"])
    #expect(status == 5)
    #expect(findings(report).first?["reason"] == "it is not an ELF file")
  }

  @Test func `the folder of the caller is left alone`() {
    let plugin = Fixtures.compile("Tests/Fixtures/Plugins/notes.c", as: "notes.so", in: folder)
    _ = check(plugin, ["--group", "calls"])
    let caller = Program.runTool(["ls", folder.path], in: folder)
    #expect(caller.output == "notes.so\n")
  }
}
