import Foundation
import Perdure
import Testing

@Suite struct EditToolTests {
  private func edits(_ pairs: (String, String)...) -> JSON {
    .array(pairs.map { ["oldText": .string($0.0), "newText": .string($0.1)] })
  }

  private func edited(_ text: String, _ edits: JSON) async throws -> String {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", text)
    try await bench.call("edit", ["path": "f", "edits": edits])
    return try await bench.text("f")
  }

  private func failure(_ text: String, _ edits: JSON) async throws -> String {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", text)
    let message = await bench.failure("edit", ["path": "f", "edits": edits])
    #expect(try await bench.text("f") == text)
    return message
  }

  @Test func `edits refer to the file as it was`() async throws {
    #expect(try await edited("a b c", edits(("a", "b"), ("b", "c"), ("c", "a"))) == "b c a")
  }

  @Test(arguments: [
    ("\u{FEFF}one\r\ntwo\r\n", "one\ntwo\n", "1\n2\n3\n", "\u{FEFF}1\r\n2\r\n3\r\n"),
    ("one\r\ntwo\nthree\r\n", "three", "x\ny", "one\r\ntwo\nx\r\ny\r\n"),
    ("a\nb\nc\r\nd", "b\nc", "x\ny", "a\nx\ny\r\nd"), ("a\r\nb", "\nb", "\nc", "a\r\nc"),
    ("a\nb", "b", "c", "a\nc"), ("a\r\nb\r\n", "a\r\nb\r\n", "c\r\n", "c\r\n"),
    ("a\rb\n", "\rb", "-b", "a-b\n"),
  ])
  func `ends of lines and the mark stay as they are`(
    text: String,
    old: String,
    new: String,
    result: String
  ) async throws { #expect(try await edited(text, edits((old, new))) == result) }

  @Test(arguments: [
    ("say \u{201C}hi\u{201D} \u{2014} now\n", "say \"hi\" - now", "bye", "bye\n"),
    ("a  \nb\t\nc\n", "a\nb\nc", "x", "x\n"), ("x\u{A0}=\u{A0}1;   \ny", "x = 1;", "z", "z   \ny"),
    (
      "keep \u{201C}this\u{201D}  \nthe ﬁle\n", "the file", "it",
      "keep \u{201C}this\u{201D}  \nit\n"
    ),
    ("e\u{301}t\u{E9}\n", "\u{E9}te\u{301}", "s", "s\n"),
    ("ａｂｃ １\n", "abc 1", "n", "n\n"),
    ("o\u{308}x\u{2014}\u{308}\n", "\u{F6}x", "s", "s\u{2014}\u{308}\n"),
    ("\u{1112}\u{1161}\u{11AB}글\n", "한글", "k", "k\n"), ("\u{AC00}\u{11A8}!\n", "각!", "k", "k\n"),
    ("a“b”c…\n", "\"b\"c...", "k", "ak\n"), ("x\u{212B}\u{2126}y\n", "\u{C5}\u{3A9}", "", "xy\n"),
    ("👩\u{200D}🔬“\n", "👩\u{200D}🔬\"", "k", "k\n"),
  ])
  func `what only looks alike is found, and nothing else is touched`(
    text: String,
    old: String,
    new: String,
    result: String
  ) async throws { #expect(try await edited(text, edits((old, new))) == result) }

  @Test(arguments: ["Bob's.txt", "Bob\u{2019}s.txt"])
  func `a file whose name only looks alike is the one that is changed`(name: String) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("Bob\u{2019}s.txt", "old")
    try await bench.call("edit", ["path": .string(name), "edits": edits(("old", "new"))])
    #expect(try await bench.text("Bob\u{2019}s.txt") == "new")
    #expect(try FileManager.default.contentsOfDirectory(atPath: bench.folder).count == 1)
  }

  @Test func `a file with an odd name is read by that name`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    for name in ["Bericht\u{A0}1.txt", "@notes"] {
      try await bench.write(name, "it is \(name)")
      #expect(try await bench.call("read", ["path": .string(name)]).text.contains("it is \(name)"))
    }
  }

  @Test(arguments: [
    ("a\nb\n", "a\n", "a", "@@ -1,2 +1,1 @@\n-a\n-b\n+ab\n"),
    ("a\nb\nc\n", "a\nb\n", "x", "@@ -1,3 +1,1 @@\n-a\n-b\n-c\n+xc\n"),
    ("a\nb\n", "b\n", "b", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"),
    ("a\nb\n", "a\n", "", "@@ -1,2 +1,1 @@\n-a\n b\n"),
  ])
  func `a patch has the line that another one runs into`(
    text: String,
    old: String,
    new: String,
    hunk: String
  ) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", text)
    let answer = try await bench.call("edit", ["path": "f", "edits": edits((old, new))])
    #expect(answer.result.details?["patch"]?.text == "--- /f\n+++ /f\n" + hunk)
  }

  @Test func `a file beyond 64 MiB is not edited`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", "a")
    try await bench.env.truncateFile("f", to: (64 << 20) + 1)
    let message = await bench.failure("edit", ["path": "f", "edits": edits(("a", "b"))])
    #expect(message == "'/f' has more than 67108864 bytes")
  }

  @Test func `the closest line is told of a long text, too`() async throws {
    let long = String(repeating: "word \u{E9} ", count: 1_000)
    let message = try await failure("first\nx \(long)\nlast\n", edits(("second\ny \(long)", "")))
    #expect(message.contains("the closest part begins at line 1; line 2 is 'x word"))
  }

  @Test func `occurrences that overlap are counted`() async throws {
    #expect(
      try await failure("}\n}\n}", edits(("}\n}", "x"))).contains("occurs 2 times in '/f'")
    )
  }

  @Test func `what cannot be done says what`() async throws {
    #expect(try await failure("a", []).contains("no edits are given"))
    #expect(try await failure("a", edits(("", "x"))).contains("has an empty oldText"))
    #expect(try await failure("aba", edits(("a", "x"))).contains("occurs 2 times in '/f'"))
    #expect(
      try await failure("\u{201C}a\u{201D} \"a\"", edits(("\"a\"", "x"))).contains("occurs 2 times")
    )
    #expect(try await failure("a", edits(("a", "a"))).contains("change nothing in '/f'"))
    #expect(
      try await failure("abcd", edits(("abc", "x"), ("cd", "y"))).contains(
        "edits[0] and edits[1] overlap"
      )
    )
    #expect(
      try await failure("a\nlet value = compute(1)\n", edits(("let value = compute(2)", "x")))
        .contains("the closest part begins at line 2; line 2 is 'let value = compute(1)'")
    )
    #expect(try await failure("a b", edits(("a", "x"), ("z", "y"))).contains("edits[1] is not in"))
  }

  @Test func `files that cannot be edited say why`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.env.writeFile("latin", [0x61, 0xE9])
    try await bench.env.writeFile("wide", [0xFF, 0xFE, 0x61, 0])
    try await bench.env.createFolder("folder")
    for (path, text) in [
      ("latin", "is no UTF-8 text"), ("wide", "is UTF-16LE"), ("folder", "is a folder"),
      ("missing", "does not exist"),
    ] {
      let message = await bench.failure(
        "edit",
        ["path": .string(path), "edits": edits(("a", "b"))]
      )
      #expect(message.contains(text))
    }
  }

  @Test(
    arguments: [
      ["path": "f", "edits": "[{\"oldText\":\"a\",\"newText\":\"b\"}]"],
      ["path": "f", "edits": ["oldText": "a", "newText": "b"]],
      ["path": "f", "oldText": "a", "newText": "b"],
    ] as [JSON]
  )
  func `the forms that models send are understood`(arguments: JSON) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", "a")
    try await bench.call("edit", arguments)
    #expect(try await bench.text("f") == "b")
  }

  @Test func `the difference is shown with lines around it`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let lines = (1...30).map { "line \($0)" }.joined(separator: "\n")
    try await bench.write("f", lines)
    let answer = try await bench.call(
      "edit",
      ["path": "f", "edits": edits(("line 10\n", "ten\nand more\n"), ("line 30", "end"))]
    )
    let details = try #require(answer.result.details)
    #expect(details["firstChangedLine"] == 10)
    #expect(
      details["patch"]?.text == """
        --- /f
        +++ /f
        @@ -6,9 +6,10 @@
         line 6
         line 7
         line 8
         line 9
        -line 10
        +ten
        +and more
         line 11
         line 12
         line 13
         line 14
        @@ -26,5 +27,5 @@
         line 26
         line 27
         line 28
         line 29
        -line 30
        \\ No newline at end of file
        +end
        \\ No newline at end of file

        """
    )
    #expect(
      details["diff"]?.text == """
          6 line 6
          7 line 7
          8 line 8
          9 line 9
        -10 line 10
        +10 ten
        +11 and more
         12 line 11
         13 line 12
         14 line 13
         15 line 14
        …
         27 line 26
         28 line 27
         29 line 28
         30 line 29
        -30 line 30
        +31 end

        """
    )
  }

  @Test func `a missing newline at the end stays missing`() async throws {
    #expect(try await edited("a\nb", edits(("b", "c"))) == "a\nc")
  }

  @Test func `what is added at the end of a file and taken from it is right`() async throws {
    #expect(try await edited("a\nb\n", edits(("b\n", ""))) == "a\n")
    #expect(try await edited("a\n", edits(("a\n", "a\nb\n"))) == "a\nb\n")
  }

  @Test func `changes of one file come one after another`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("f", (0..<40).map { "<\($0)>" }.joined(separator: "\n"))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<40 {
        group.addTask {
          try await bench.call(
            "edit",
            [
              "path": .string(number.isMultiple(of: 2) ? "f" : "./x/../f"),
              "oldText": .string("<\(number)>"), "newText": .string("[\(number)]"),
            ]
          )
        }
      }
      try await group.waitForAll()
    }
    #expect(
      try await bench.text("f") == (0..<40).map { "[\($0)]" }.joined(separator: "\n")
    )
  }
}
