import Foundation
import PerdureModel
import PerdurePluginHost
import PerdureValue
import Testing

/// Files that are no plugins, or none for this host.
struct RefusalTests {
  static let plain = #"{"manifest":1,"id":"test.plain","version":"1.0.0","runtime":"c"}"#

  private func refusal(_ path: String) -> PerdureError? {
    do {
      _ = try PluginFiles.inspect(path: path, checkSchema: PluginBench.checkSchema)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  private func loadRefusal(_ path: String) async -> PerdureError? {
    do {
      let bench = try await PluginBench.load(path)
      _ = await bench.plugin.close()
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  private func expect(
    _ error: PerdureError?,
    _ path: String,
    _ what: String,
    _ place: SourceLocation = #_sourceLocation
  ) {
    #expect(error?.code == .pluginRefused, sourceLocation: place)
    #expect(error?.message == "plugin file \(path) \(what)", sourceLocation: place)
    #expect(error?.hint != nil, sourceLocation: place)
  }

  @Test func `a missing file is named`() {
    expect(refusal("/nowhere/x.so"), "/nowhere/x.so", "does not exist")
  }

  @Test func `a folder is refused`() throws {
    let path = try Fixtures.folder()
    expect(refusal(path), path, "is not a regular file")
  }

  @Test func `a text is not an ELF file`() throws {
    let path = try Fixtures.folder() + "/text.so"
    try Data("#!/bin/sh\n".utf8).write(to: URL(filePath: path))
    expect(refusal(path), path, "is not an ELF file")
  }

  @Test func `an empty file is not an ELF file`() throws {
    let path = try Fixtures.folder() + "/empty.so"
    try Data().write(to: URL(filePath: path))
    expect(refusal(path), path, "is not an ELF file")
  }

  @Test func `a file for another machine is refused`() throws {
    let path = try Fixtures.copy(Fixtures.lifecycle(manifest: Self.plain)) { $0[18] = 243 }
    let error = refusal(path)
    #expect(error?.message.contains("is built for another machine (ELF machine 243") == true)
  }

  @Test func `a 32-bit file is refused`() throws {
    let path = try Fixtures.copy(Fixtures.lifecycle(manifest: Self.plain)) { $0[4] = 1 }
    expect(refusal(path), path, "is not a 64-bit little-endian ELF file")
  }

  @Test func `an object file is refused`() throws {
    let path = try Fixtures.copy(Fixtures.lifecycle(manifest: Self.plain)) { $0[16] = 1 }
    expect(refusal(path), path, "is not a shared library")
  }

  @Test func `a file without the entry symbol is refused`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, wrong: 8)
    expect(refusal(path), path, "does not export perdure_plugin_1 but perdure_plugin_2")
  }

  @Test func `a file without a note is refused`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, wrong: 9)
    expect(refusal(path), path, "has no note .note.perdure")
  }

  @Test func `a file without a manifest is refused`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, wrong: 10)
    expect(
      refusal(path),
      path,
      "has no manifest, neither in a section .perdure.manifest nor beside it"
    )
  }

  @Test func `ABI major 2 is refused before any code runs`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, flags: ["-DMAJOR=2"])
    expect(refusal(path), path, "asks for ABI major 2 and this host has 1")
  }

  @Test func `a newer minor is refused`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, flags: ["-DMINOR=7"])
    expect(
      refusal(path),
      path,
      "asks for ABI 1.7 with message level 1 and this host has 1.0 with level 1"
    )
  }

  @Test(arguments: [
    ("{", "has a manifest that is not JSON (expected '\"', found the end of the text at byte 1)"),
    ("[]", "has a manifest with JSON that is no object"),
    ("{}", "has a manifest with a missing member at /manifest"),
    (
      #"{"manifest":1,"id":"Acme","version":"1.0.0","runtime":"c"}"#,
      "has a manifest with a value that is not a plugin id such as acme.crawl at /id"
    ),
    (
      #"{"manifest":1,"id":"pi.tools","version":"1.0.0","runtime":"c"}"#,
      "has a manifest with an id that is reserved (pi. and perdure.) at /id"
    ),
    (
      #"{"manifest":1,"id":"a","version":"1.0.0","runtime":"rust"}"#,
      "says runtime c in its note and rust in its manifest"
    ),
    (
      #"{"manifest":1,"id":"a","version":"1.0.0","runtime":"c","must":["later"],"later":1}"#,
      "has a manifest with a member in \"must\" that this version does not know (later) at /must"
    ),
    (
      #"{"manifest":1,"id":"a","version":"1.0.0","runtime":"c","tools":[{"name":"t"#
        + #"","description":"","parameters":{}},{"name":"t","description":"","parameters":{}}]}"#,
      "has a manifest with two tools named t at /tools/1"
    ),
  ])
  func `a manifest that breaks its schema is refused at a place`(
    manifest: String,
    what: String
  ) throws {
    let path = try Fixtures.lifecycle(manifest: manifest)
    let error = refusal(path)
    #expect(error?.message.hasPrefix("plugin file \(path) \(what.prefix(40))") == true)
    if !what.contains("not JSON") { expect(error, path, what) }
  }

  @Test(arguments: [
    (
      #""interfaces":{"required":["perdure.queue/1"]}"#,
      "requires the interface perdure.queue/1, which this host lacks"
    ),
    (
      #""tools":[{"name":"t","description":"","parameters":{"unevaluatedItems":false}}]"#,
      "has a tool t whose parameters cannot be checked here: "
        + "the keyword unevaluatedItems is not supported"
    ),
  ])
  func `what this version cannot do is refused by inspection as by loading`(
    member: String,
    what: String
  ) async throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain.dropLast() + "," + member + "}")
    expect(refusal(path), path, what)
    expect(await loadRefusal(path), path, what)
    #expect(try PluginFiles.describe(path: path).manifest.id == "test.plain")
  }

  @Test(arguments: [
    (1, "cannot be loaded", "the host is not to my taste"),
    (2, "cannot be loaded", "it has no start function"),
    (3, "refused to be activated", "the licence has expired"),
    (7, "cannot be loaded", "it sets flags that this version does not know"),
  ])
  func `the plugin's own refusal is told`(wrong: Int, what: String, cause: String) async throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, wrong: wrong)
    let error = await loadRefusal(path)
    expect(error, path, what)
    #expect(error?.cause == cause)
  }

  @Test func `settings that the plugin refuses stop the load`() async throws {
    let manifest = Self.plain.dropLast() + #","settings":{"schema":{}}}"#
    let path = try Fixtures.lifecycle(manifest: String(manifest), wrong: 4)
    let error = await loadRefusal(path)
    expect(error, path, "refused its settings")
    #expect(error?.cause == "colour must be blue")
  }

  @Test func `a sidecar stands for a missing section`() throws {
    let path = try Fixtures.copy(Fixtures.lifecycle(manifest: Self.plain, wrong: 10))
    let sidecar = path.dropLast(3) + ".perdure.json"
    try Data(Self.plain.utf8).write(to: URL(filePath: String(sidecar)))
    #expect(try PluginFiles.inspect(path: path).isSidecar)
  }

  @Test func `a sidecar that differs from the section is refused`() throws {
    let path = try Fixtures.copy(Fixtures.lifecycle(manifest: Self.plain))
    let sidecar = String(path.dropLast(3)) + ".perdure.json"
    try Data("{}".utf8).write(to: URL(filePath: sidecar))
    expect(
      refusal(path),
      path,
      "has a manifest inside and another one in \(sidecar)"
    )
  }

  @Test func `an executable stack is refused`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.plain, flags: ["-Wl,-z,execstack"])
    expect(refusal(path), path, "asks for an executable stack")
  }

  @Test func `a run path and further exports are warnings`() throws {
    let path = try Fixtures.lifecycle(
      manifest: Self.plain,
      flags: ["-Wl,-rpath,/opt/lib", "-fvisibility=default"]
    )
    let warnings = try PluginFiles.inspect(path: path).warnings
    #expect(warnings == ["it searches libraries in /opt/lib; link it without a run path"])
  }

  @Test func `inspection runs no constructor`() throws {
    // A constructor that aborts would end the tests.
    let source = URL(filePath: try Fixtures.folder()).appending(path: "constructor.c")
    let text = """
      #include <stdlib.h>
      #include "perdure_easy.h"
      PDR_PLUGIN_NOTE("c");
      PDR_MANIFEST("{\\"manifest\\":1,\\"id\\":\\"a\\",\\"version\\":\\"1.0.0\\",\\"runtime\\":\\"c\\"}");
      __attribute__((constructor)) static void early(void) { abort(); }
      static int32_t none(pdr_easy_call *call) { return pdr_easy_answer(call, ""); }
      PDR_EASY_PLUGIN({"none", none})
      """
    try Data(text.utf8).write(to: source)
    let path = try Fixtures.plugin(source: source, flags: [])
    #expect(try PluginFiles.inspect(path: path).manifest.id == "a")
  }

  @Test func `no damage to a file makes its inspection trap`() throws {
    let bytes = Array(
      try Data(contentsOf: URL(filePath: Fixtures.lifecycle(manifest: Self.plain)))
    )
    let seed = UInt64.random(in: 1...UInt64.max)
    var generator = SplitMix(seed: seed)
    let path = try Fixtures.folder() + "/damaged.so"
    print("seed of damaged files: \(seed)")
    for _ in 0..<400 {
      var damaged = bytes
      if Bool.random(using: &generator) {
        damaged.removeLast(Int.random(in: 1..<damaged.count, using: &generator))
      }
      for _ in 0..<Int.random(in: 1...40, using: &generator) where damaged.count > 64 {
        // Mostly in the tables, which is where offsets and sizes are.
        let place = Bool.random(using: &generator) ? 1_024 : damaged.count
        let index = Int.random(in: 4..<min(place, damaged.count), using: &generator)
        damaged[index] = UInt8.random(in: 0...255, using: &generator)
      }
      try Data(damaged).write(to: URL(filePath: path))
      _ = refusal(path)
    }
  }
}

/// Chance from a seed.
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}
