import Foundation
import Perdure
import Testing

/// What searches cost, and that they find the same with another program's help.
@Suite struct GrepTests {
  @Test func `a line that is looked at in parts is one line`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let long = String(repeating: "needle é ", count: 400_000)
    try await bench.write("a", "first\n\(long)\nlast needle\n")
    let answer = try await bench.call("grep", ["pattern": "ne+dle"])
    let lines = answer.text.split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines.first?.hasPrefix("a:2:needle é ") == true)
    #expect(lines.last == "a:3:last needle")
  }

  @Test func `what is at the end of a long line is found`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a", String(repeating: "é", count: 1_500_000) + "needle\nnext\n")
    let answer = try await bench.call("grep", ["pattern": "needle$", "context": 1])
    #expect(answer.text.hasPrefix("a:1:é"))
    #expect(answer.text.hasSuffix("\na-2-next"))
  }

  @Test(arguments: ["(a*)*b", "(a|aa)+$b", "(?=(a+))a*b"])
  func `an expression that others try in endless ways ends`(pattern: String) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a", String(repeating: "a", count: 3_000))
    let answer = try await bench.call("grep", ["pattern": .string(pattern)])
    #expect(answer.text == "Nothing fits.")
  }

  @Test func `lines beyond a quarter of a megabyte end a search`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write(
      "a",
      String(repeating: "\(String(repeating: "x", count: 99))\n", count: 5_000)
    )
    let answer = try await bench.call("grep", ["pattern": "x", "limit": 1_000_000])
    #expect(answer.text.utf8.count < 263_000)
    #expect(
      answer.remarks == [
        "The search was ended after 262144 bytes of lines. Use a narrower pattern."
      ]
    )
  }

  // MARK: With ripgrep

  /// Folders with a program `rg` that notes that it was run, and without one.
  private func benches() async throws -> (with: ToolBench, without: ToolBench, notes: String) {
    let programs = FileManager.default.temporaryDirectory
      .appending(path: "programs-\(UUID().uuidString)").path
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    let real = try #require(
      path.split(separator: ":").map { "\($0)/rg" }
        .first { FileManager.default.isExecutableFile(atPath: $0) },
      "these tests need ripgrep"
    )
    try FileManager.default.createDirectory(atPath: programs, withIntermediateDirectories: true)
    let script = "#!/bin/sh\necho run >> \(programs)/notes\nexec \(real) \"$@\"\n"
    try Data(script.utf8).write(to: URL(filePath: "\(programs)/rg"))
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o755],
      ofItemAtPath: "\(programs)/rg"
    )
    return (
      try ToolBench(shell: true, variables: ["PATH": "\(programs):/usr/bin:/bin"]),
      try ToolBench(shell: true, variables: ["PATH": "/nowhere"]), programs
    )
  }

  private func fill(_ bench: ToolBench) async throws {
    try await bench.write(".gitignore", "out/\n")
    try await bench.write(".git/config", "needle")
    try await bench.write("out/ignored", "needle")
    for number in 0..<150 {
      let text = number.isMultiple(of: 10) ? "Needle \(number)\nneedle é\r\n" : "hay \(number)\n"
      try await bench.write("d\(number % 7)/f\(number)", "first\n" + text)
    }
    for (name, bytes) in [
      ("-v", Array("needle\n".utf8)), ("invalid", [0x6E, 0xFF, 0x65, 0x0A]),
      ("binary", [0] + Array("needle".utf8)), ("odd\nname", Array("needle".utf8)),
      ("wide", [0xFF, 0xFE, 0x6E, 0]), (".hidden", Array("needle".utf8)),
      ("two", Array("a\u{FFFD}b\nfoo.bar(baz)\n\tx = 1;\n".utf8)),
      ("cut", Array("half \u{20AC}".utf8.dropLast())),
    ] as [(String, [UInt8])] { try await bench.env.writeFile(name, bytes) }
  }

  @Test func `the same is found with ripgrep and without`() async throws {
    let (with, without, programs) = try await benches()
    defer {
      with.remove()
      without.remove()
      try? FileManager.default.removeItem(atPath: programs)
    }
    try await fill(with)
    try await fill(without)
    for pattern in [
      "needle", "n[e]+dle", "^needle", "needle \u{E9}\r?$", "\\bNeedle\\b", "n.e", "a.b", "[^x]b",
      "(?=need)n", "(?<!x)needle", "foo\\.bar\\(baz\\)", "\\s+x\\s*=\\s*\\d", "\\u{FFFD}", "half .",
      "\\p{Lu}eedle 1[0-9]{2}", "x{0}needle|hay 14\\d", "", "(", "a{9999}{9999}", "^$", "é|\\d+",
      "[\\n]", "no such text", "\\/", "-v",
    ] {
      for flags in [[:], ["ignoreCase": true], ["literal": true]] as [JSONObject] {
        var arguments = flags
        arguments["pattern"] = .string(pattern)
        arguments["limit"] = 1_000
        let asked = JSON.object(arguments)
        let expected = try? await without.call("grep", asked)
        let found = try? await with.call("grep", asked)
        #expect(found?.text == expected?.text, "\(asked.compactText)")
        #expect(found?.remarks == expected?.remarks, "\(asked.compactText)")
      }
    }
    #expect(FileManager.default.fileExists(atPath: "\(programs)/notes"))
  }
}
