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

  /// Every number and name that is compiled into plugins.
  private static let constants = """
    PDR_ABI_MAJOR 1
    PDR_ABI_MINOR 0
    PDR_CALLS_1 perdure.calls/1
    PDR_CANCEL_ABORT 1
    PDR_CANCEL_CLOSING 3
    PDR_CANCEL_DEADLINE 2
    PDR_CANCEL_DRAIN 4
    PDR_CANCEL_OBSOLETE 6
    PDR_CANCEL_PARENT 5
    PDR_ENTRY_SYMBOL perdure_plugin_1
    PDR_ERR_CANCELLED 2
    PDR_ERR_PLUGIN_BUG 16
    PDR_ERR_RETRYABLE 1
    PDR_ERR_TIMEOUT 4
    PDR_ERR_USER_VISIBLE 8
    PDR_E_BUSY -5
    PDR_E_CANCELLED -1
    PDR_E_DENIED -9
    PDR_E_ENCODING -8
    PDR_E_GONE -4
    PDR_E_INTERNAL -11
    PDR_E_INVALID -7
    PDR_E_PLUGIN_FAULT -12
    PDR_E_STALE -3
    PDR_E_TIMEOUT -2
    PDR_E_UNSUPPORTED -10
    PDR_E_WOULD_BLOCK -6
    PDR_INVOKE_1 perdure.invoke/1
    PDR_MANIFEST_SECTION .perdure.manifest
    PDR_MEDIA_BYTES application/octet-stream
    PDR_MEDIA_GIF image/gif
    PDR_MEDIA_JPEG image/jpeg
    PDR_MEDIA_JSON application/json
    PDR_MEDIA_PARTS application/vnd.perdure.parts
    PDR_MEDIA_PNG image/png
    PDR_MEDIA_TEXT text/plain
    PDR_MEDIA_WEBP image/webp
    PDR_MESSAGE_LEVEL 1
    PDR_MUST_UNDERSTAND 4294901760
    PDR_NOTE_OWNER Perdure
    PDR_NOTE_SECTION .note.perdure
    PDR_NOTE_TYPE 1
    PDR_OK 0
    """

  private static let example = Fixtures.root.appending(path: "examples/plugin-c/wordcount.c")

  @Test(
    arguments: ["c99", "c11", "c17", "c2x", "c++11", "c++14", "c++17", "c++20"],
    ["gcc", "clang"]
  )
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
    var probe = ""
    for line in Self.layout.split(separator: "\n") {
      let words = line.split(separator: " ").map(String.init)
      probe += "printf(\"\(words[0]) %zu\", sizeof(\(words[0])));\n"
      for index in stride(from: 2, to: words.count, by: 2) {
        probe += "printf(\" \(words[index]) %zu\", offsetof(\(words[0]), \(words[index])));\n"
      }
      probe += "puts(\"\");\n"
    }
    #expect(try Self.printed(by: probe) == Self.layout + "\n")
  }

  @Test func `the numbers and names are those that were released`() throws {
    let header = Fixtures.headers.appending(path: "perdure.h").path
    // What the compiler makes of the header says which there are: those that stand for a value.
    let defined = try Command.run(["cc", "-dM", "-E", "-I", Fixtures.headers.path, header])
    let names = defined.split(separator: "\n").compactMap { line -> String? in
      let words = line.split(separator: " ", maxSplits: 2)
      guard words.count == 3, let value = words[2].first else { return nil }
      return words[1].hasPrefix("PDR_") && (value.isNumber || "(\"".contains(value))
        && !words[1].contains("(") ? String(words[1]) : nil
    }
    let probe = names.sorted().map {
      "printf(_Generic((\($0)), char *: \"\($0) %s\\n\", default: \"\($0) %lld\\n\"), "
        + "_Generic((\($0)), char *: (\($0)), default: (long long)(\($0))));\n"
    }.joined()
    #expect(try Self.printed(by: probe, "-Wno-pointer-to-int-cast") == Self.constants + "\n")
  }

  /// Compiles statements that know the header, and gives what they print.
  private static func printed(by statements: String, _ flags: String...) throws -> String {
    let text =
      "#include <stdio.h>\n#include \"perdure.h\"\nint main(void) {\n" + statements
      + "return 0;\n}\n"
    let folder = try Fixtures.folder()
    try Data(text.utf8).write(to: URL(filePath: folder + "/probe.c"))
    try Command.run(
      ["cc"] + flags + ["-I", Fixtures.headers.path, "-o", folder + "/probe", folder + "/probe.c"]
    )
    return try Command.run([folder + "/probe"])
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
