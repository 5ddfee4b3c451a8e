import Foundation
import PerdureModel
import PerdurePluginHost
import PerdureValue
import Testing

/// What manifests may say.
///
/// They are read out of real files, as the host reads them.
struct ManifestTests {
  // Every kind of contribution and every member of the message layer's example.
  private static let full = #"""
    { "manifest": 1, "id": "acme.crawl", "version": "1.4.0", "description": "Crawls sites.",
      "license": "MIT", "abi": {"major": 1, "minor": 0, "messages": 1}, "runtime": "c",
      "interfaces": {"required": ["perdure.calls/1", "perdure.invoke/1"],
                     "optional": ["perdure.threads/1"]},
      "execution": {"mode": "any", "maxConcurrency": 8, "graceMs": 3000,
                    "limits": {"memoryMiB": 256}},
      "permissions": {"environment": "read", "network": ["*.example.org"], "models": true,
                      "secrets": ["CRAWL_TOKEN"], "tools": ["read"], "approvals": true},
      "settings": {"schema": {"type": "object"}, "default": {"maxPages": 100}},
      "state": {"version": 2, "restores": [1, 2]}, "dynamic": {"tools": "crawl_*"},
      "health": [{"name": "proxy", "title": "Proxy reachable", "everyMs": 60000}],
      "tools": [{"name": "crawl", "description": "Crawl a site.", "replay": "safe", "prepare": true,
                 "deadlineMs": 1800000, "parameters": {"type": "object"},
                 "outputLimits": {"maxBytes": 4096, "maxLines": 20, "retain": "tail"}}],
      "sections": [{"key": "crawl-policy", "deadlineMs": 500}],
      "hooks": [{"point": "beforeTool", "role": "guard", "tools": ["bash"], "deadlineMs": 2000},
                {"point": "beforeRequest", "role": "guard", "changes": true,
                 "order": {"after": ["acme.redact"]}},
                {"point": "task:acme.crawl.site/beforeFetch", "role": "observer"}],
      "wraps": [{"tool": "read", "role": "observer"}],
      "tasks": [{"type": "acme.crawl.site", "version": 2, "migrates": [1],
                 "phases": ["plan", "fetch"], "initial": {"phase": "plan"},
                 "inputSchema": {"type": "object"}, "hooks": ["beforeFetch"]}],
      "documents": [{"kind": "acme.crawl.notes", "version": 1, "scope": "conversation",
                     "history": "rewindable", "fork": "asOf", "keyed": true,
                     "initial": {"pages": []}, "base": {"deltas": 32}}] }
    """#

  private func read(_ manifest: String) throws -> PluginDescription {
    try PluginFiles.describe(path: Fixtures.lifecycle(manifest: manifest))
  }

  /// A manifest with one more member; gives the sentence of its refusal behind the file's name.
  private func problem(_ member: String) throws -> String? {
    let path = try Fixtures.lifecycle(
      manifest: RefusalTests.plain.dropLast() + "," + member + "}"
    )
    do {
      _ = try PluginFiles.describe(path: path)
      return nil
    } catch let error as PerdureError {
      return error.message.replacing("plugin file \(path) has a manifest with ", with: "")
    }
  }

  @Test func `all five kinds of contribution are read`() throws {
    let manifest = try read(Self.full).manifest
    #expect(manifest.tools.map(\.name) == ["crawl"])
    #expect(manifest.sections.map(\.key) == ["crawl-policy"])
    #expect(
      manifest.hooks.map(\.point) == [
        "beforeTool", "beforeRequest", "task:acme.crawl.site/beforeFetch",
      ]
    )
    #expect(manifest.wraps.map(\.tool) == ["read"])
    #expect(manifest.tasks.first?.phases == ["plan", "fetch"])
    #expect(manifest.documents.first?.kind == "acme.crawl.notes")
  }

  @Test func `the description for programs holds the manifest as it is`() throws {
    let description = try read(Self.full)
    #expect(try description.json["manifest"] == JSON(parsing: Self.full))
    #expect(description.json["note"]?["runtime"] == "c")
    #expect(description.json["digest"]?.text?.count == 64)
  }

  @Test func `a tool gets its limits, deadline and replay`() async throws {
    let manifest =
      String(RefusalTests.plain.dropLast())
      + #","tools":[{"name":"t","description":"d","replay":"safe","deadlineMs":1500,"graceMs":200,"#
      + #""executionMode":"sequential","parameters":{"type":"object"},"#
      + #""outputLimits":{"maxBytes":10,"maxLines":3,"retain":"tail"}}]}"#
    try await PluginBench.with(Fixtures.lifecycle(manifest: manifest)) {
      (bench) async throws in
      let tool = try #require(bench.plugin.extensionValue.tools.first)
      #expect(tool.replay == .safe)
      #expect(tool.executionMode == .sequential)
      #expect(tool.deadline == .milliseconds(1_500))
      #expect(tool.grace == .milliseconds(200))
      #expect(tool.outputLimits == OutputLimits(maxBytes: 10, maxLines: 3, retain: .tail))
    }
  }

  @Test(arguments: [
    (#""tools":{}"#, "a value that is not an array at /tools"),
    (#""tools":[{"name":"t"}]"#, "a missing member at /tools/0/description"),
    (
      #""tools":[{"name":"1t","description":"","parameters":{}}]"#,
      "a value that is not a tool name (letters, digits, _ and -, at most 64) at /tools/0/name"
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":true}]"#,
      "a value that is not an object at /tools/0/parameters"
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":{},"replay":"maybe"}]"#,
      "a value that is not one of unsafe, safe at /tools/0/replay"
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":{},"must":["soon"],"soon":1}]"#,
      "a member in \"must\" that this version does not know (soon) at /tools/0/must"
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":{},"deadlineMs":"5"}]"#,
      "a value that is not an integer from 1 to 1099511627776 at /tools/0/deadlineMs"
    ),
    (
      #""sections":[{"key":"instructions"}]"#,
      "a value that is not a section key at /sections/0/key"
    ),
    (
      #""hooks":[{"point":"beforeAll","role":"guard"}]"#,
      "a value that is not a hook point at /hooks/0/point"
    ),
    (#""hooks":[{"point":"onYield"}]"#, "a missing member at /hooks/0/role"),
    (
      #""wraps":[{"tool":"a","section":"b"}]"#,
      "a wrap without exactly one of tool and section at /wraps/0"
    ),
    (
      #""wraps":[{"tool":"a","role":"observer","override":{"replay":"safe"}}]"#,
      "an override that is not stricter at /wraps/0/override/replay"
    ),
    (
      #""tasks":[{"type":"pi.tool","version":1,"phases":["a"],"initial":"call"}]"#,
      "a value that is not a task type outside pi. and perdure. at /tasks/0/type"
    ),
    (
      #""tasks":[{"type":"a.b","version":1,"phases":["a"],"initial":{"phase":"b"}}]"#,
      "a value that is neither \"call\" nor an object whose phase is declared at /tasks/0/initial"
    ),
    (
      #""documents":[{"kind":"a.b","version":1,"scope":"task"}]"#,
      "a missing member at /documents/0/base"
    ),
    (
      #""documents":[{"kind":"a.b","version":1,"scope":"conversation","base":"never"}]"#,
      "a missing member at /documents/0/history"
    ),
    (
      #""execution":{"graceMs":5}"#,
      "a value that is not an integer from 100 to 60000 at /execution/graceMs"
    ),
    (
      #""permissions":{"environment":"all"}"#,
      "a value that is not one of read, write, exec at /permissions/environment"
    ),
  ])
  func `a member that breaks the schema is named`(member: String, problem: String) throws {
    #expect(try self.problem(member) == problem)
  }

  @Test func `members that nobody knows are ignored`() throws {
    #expect(try problem(#""x-acme-note":1,"later":{"a":[]}"#) == nil)
  }

  @Test(arguments: [
    (#""bloking":true"#, ["/bloking"]),
    (
      #""execution":{"bloking":true},"permissions":{"nets":1}"#,
      ["/execution/bloking", "/permissions/nets"]
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":{"a/b":1},"repley":"safe","a/b":{"c":1}}]"#,
      ["/tools/0/repley", "/tools/0/a~1b"]
    ),
    (#""x-acme-note":1,"abi":{"x-y":2},"settings":{"schema":{"z":1},"default":{"z":1}}"#, []),
  ])
  func `members that nobody knows are warned of, unless they begin with x-`(
    member: String,
    pointers: [String]
  ) throws {
    let description = try read(RefusalTests.plain.dropLast() + "," + member + "}")
    #expect(
      description.warnings
        == pointers.map { "the manifest has a member this version does not know: \($0)" }
    )
  }

  @Test func `at most 20 members that nobody knows are named`() throws {
    let members = (1...25).map { "\"m\($0)\":1" }.joined(separator: ",")
    let warnings = try read(RefusalTests.plain.dropLast() + "," + members + "}").warnings
    #expect(warnings.count == 21)
    #expect(warnings.last == "the manifest has 5 more members of that kind")
  }

  @Test func `everything in the full manifest is known`() throws {
    #expect(try read(Self.full).manifest.unknownMembers == [])
  }

  @Test func `more than 1,024 contributions are refused`() throws {
    let sections = (0...1_024).map { "{\"key\":\"s\($0)\"}" }.joined(separator: ",")
    #expect(
      try problem("\"sections\":[\(sections)]")
        == "1025 contributions (at most 1024 are allowed)"
    )
  }

  @Test func `a manifest deeper than 32 is refused`() throws {
    let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
    #expect(try problem("\"x\":\(deep)")?.contains("nesting is deeper than 32") == true)
  }

  @Test func `a manifest of more than a mebibyte is refused`() throws {
    let long = String(repeating: "x", count: 1 << 20)
    #expect(try problem("\"x\":\"\(long)\"") == "more than 1048576 bytes")
  }

  @Test func `a manifest that is not UTF-8 is refused`() throws {
    let plain = try Fixtures.lifecycle(manifest: RefusalTests.plain)
    let path = try Fixtures.copy(plain) { bytes in
      let name = Array("test.plain".utf8)
      let last = bytes.count - name.count
      for start in 0...last where bytes[start] == name[0] {
        if bytes[start..<start + name.count].elementsEqual(name) { bytes[start + 1] = 0xFF }
      }
    }
    let error = #expect(throws: PerdureError.self) { try PluginFiles.describe(path: path) }
    #expect(error?.message == "plugin file \(path) has a manifest that is not UTF-8")
  }

  @Test func `host code runs in no plugin`() {
    #expect(Breadcrumb.current == nil)
  }
}
