import Foundation
import PerdureModel
import PerdurePluginHost
import PerdureValue
import Testing

/// The contract as C sees it.
struct HeaderTests {
  private static let layout = """
    pdr_blob 56 size 0 flags 4 ptr 8 len 16 media_type 24 owner 40 release 48
    pdr_call 56 size 0 flags 4 id 8 parent 16 target 24 input 40 deadline_ns 48
    pdr_calls_1 56 size 0 reserved 4 ctx 8 complete 16 emit 24 credit 32 cancelled 40 on_cancel 48
    pdr_err 48 size 0 code 4 flags 8 reserved 12 message 16 detail 32
    pdr_errbuf 32 size 0 code 4 buf 8 cap 16 len 24
    pdr_host 24 size 0 minor 4 ctx 8 query 16
    pdr_invoke_1 32 size 0 reserved 4 ctx 8 start 16 cancel 24
    pdr_note 72 name_size 0 desc_size 4 type 8 name 12 desc 20
    pdr_note_desc 52 size 0 abi_major 4 host_minor 8 message_level 12 flags 16 runtime 20
    pdr_plugin 56 size 0 flags 4 state 8 query 16 activate 24 start 32 deactivate 40 destroy 48
    pdr_str 16 ptr 0 len 8
    """

  private static let example = Fixtures.root.appending(path: "examples/plugin-c/wordcount.c")

  @Test(arguments: ["c99", "c11", "c17", "c2x", "c++17", "c++20"], ["gcc", "clang"])
  func `the headers and the example compile without a warning`(
    standard: String,
    compiler: String
  ) throws {
    let isPlusPlus = standard.hasPrefix("c++")
    let command = isPlusPlus ? (compiler == "gcc" ? "g++" : "clang++") : compiler
    let layout = Fixtures.root.appending(path: "Sources/CPerdureABI/layout.c")
    for source in [layout, Self.example] {
      try Command.run(
        [command, "-x", isPlusPlus ? "c++" : "c", "-std=\(standard)", "-Wall", "-Wextra"]
          + ["-Wpedantic", "-Werror", "-fPIC", "-c", "-o", "/dev/null"]
          + ["-I", Fixtures.headers.path, source.path]
      )
    }
  }

  @Test func `the layout is the one that was released`() throws {
    var probe = "#include <stdio.h>\n#include \"perdure.h\"\nint main(void) {\n"
    for line in Self.layout.split(separator: "\n") {
      let words = line.split(separator: " ").map(String.init)
      probe += "printf(\"\(words[0]) %zu\", sizeof(\(words[0])));\n"
      for index in stride(from: 2, to: words.count, by: 2) {
        probe += "printf(\" \(words[index]) %zu\", offsetof(\(words[0]), \(words[index])));\n"
      }
      probe += "puts(\"\");\n"
    }
    let folder = try Fixtures.folder()
    try Data((probe + "return 0;\n}\n").utf8).write(to: URL(filePath: folder + "/probe.c"))
    try Command.run(
      ["cc", "-I", Fixtures.headers.path, "-o", folder + "/probe", folder + "/probe.c"])
    let output = try Command.run([folder + "/probe"])
    #expect(output == Self.layout + "\n")
  }

  @Test func `the example has at most 25 lines`() throws {
    let text = try String(contentsOf: Self.example, encoding: .utf8)
    #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count - 1 <= 25)
  }

  @Test(arguments: [
    ("", "0 words, 0 lines"), ("one", "1 words, 1 lines"), ("a b\nc\n", "3 words, 2 lines"),
    ("\u{E9}t\u{E9} \u{1F600} \"q\"\t\\", "4 words, 1 lines"),
  ])
  func `the example counts`(text: String, answer: String) async throws {
    let path = try Fixtures.plugin(source: Self.example, flags: [])
    try await PluginBench.with(path) { (bench) async throws in
      #expect(try await bench.text("wordcount", ["text": .string(text)]) == answer)
    }
  }

  @Test func `the example is built by the command of its README`() throws {
    let folder = Fixtures.root.appending(path: "examples/plugin-c")
    let readme = try String(contentsOf: folder.appending(path: "README.md"), encoding: .utf8)
    let command = try #require(readme.split(separator: "\n").first { $0.hasPrefix("cc ") })
    let target = try Fixtures.folder()
    let line = command.replacing("-o wordcount.so", with: "-o \(target)/wordcount.so")
    try Command.run(["sh", "-c", "cd \(folder.path) && \(line)"])
    let description = try PluginFiles.inspect(path: target + "/wordcount.so")
    #expect(description.manifest.tools.map(\.name) == ["wordcount"])
    #expect(description.warnings == [])
  }

  @Test func `the example says what is missing`() async throws {
    let path = try Fixtures.plugin(source: Self.example, flags: [])
    try await PluginBench.with(path) { (bench) async throws in
      #expect(await bench.failure("wordcount", ["text": 5])?.message == "text is missing")
    }
  }

  @Test func `the layer for C reads arguments without trusting them`() throws {
    let source = Fixtures.plugins.appending(path: "easy_probe.c")
    let folder = try Fixtures.folder()
    try Command.run(
      ["cc", "-std=c99", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        + ["-I", Fixtures.headers.path, "-o", folder + "/probe", source.path]
    )
    #expect(try Command.run([folder + "/probe"]) == "ok\n")
  }

  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    (
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
        + "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
    ),
    (
      String(repeating: "a", count: 1_000_000),
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    ),
  ])
  func `digests are those of the standard`(text: String, digest: String) {
    #expect(PluginFiles.digest(of: Array(text.utf8)) == digest)
  }
}
