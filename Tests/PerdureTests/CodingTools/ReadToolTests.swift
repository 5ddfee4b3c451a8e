import Foundation
import Perdure
import Testing

@Suite struct ReadToolTests {
  @Test func `a file is shown as it is, without its mark`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a.txt", "\u{FEFF}one\r\ntwo\u{FEFF}\n")
    let answer = try await bench.call("read", ["path": "a.txt"])
    #expect(answer.text == "one\r\ntwo\u{FEFF}\n")
    #expect(answer.remarks.isEmpty)
    #expect(answer.result.details?["truncation"]?["truncated"] == false)
    #expect(answer.result.details?["truncation"]?["totalLines"] == 3)
  }

  @Test(arguments: ["@a b.txt", "a\u{00A0}b.txt", "/a b.txt", "./x/../a b.txt"])
  func `a path is understood as models write it`(path: String) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a b.txt", "found")
    #expect(try await bench.call("read", ["path": .string(path)]).text == "found")
  }

  @Test(arguments: [
    ("Shot 9.41 AM.png.txt", "Shot 9.41\u{202F}AM.png.txt"), ("caf\u{E9}.txt", "cafe\u{301}.txt"),
    ("it's.txt", "it\u{2019}s.txt"), ("l'\u{E9}t\u{E9}", "l\u{2019}e\u{301}te\u{301}"),
  ])
  func `a name that only looks the same is found`(asked: String, real: String) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write(real, "found")
    #expect(try await bench.call("read", ["path": .string(asked)]).text == "found")
  }

  @Test func `a part is shown with what is left`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a", (1...100).map { "l\($0)" }.joined(separator: "\n"))
    let part = try await bench.call("read", ["path": "a", "offset": 11, "limit": 2])
    #expect(part.text == "l11\nl12")
    #expect(part.remarks == ["88 more lines in the file. Use offset=13 to continue."])
    let last = try await bench.call("read", ["path": "a", "offset": 99, "limit": 2])
    #expect(last.text == "l99\nl100")
    #expect(last.remarks.isEmpty)
    #expect(
      await bench.failure("read", ["path": "a", "offset": 101]).contains("which has 100 lines")
    )
  }

  @Test func `two thousand lines are shown at most`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("a", String(repeating: "x\n", count: 5_000))
    let answer = try await bench.call("read", ["path": "a"])
    #expect(answer.text.split(separator: "\n").count == 2_000)
    #expect(answer.remarks == ["Showing lines 1-2000 of 5001. Use offset=2001 to continue."])
    let truncation = answer.result.details?["truncation"]
    #expect(truncation?["truncatedBy"] == "lines")
    #expect(truncation?["totalLines"] == 5_001)
    #expect(truncation?["totalBytes"] == 10_000)
    #expect(truncation?["outputLines"] == 2_000)
  }

  @Test func `whole lines of fifty kilobytes are shown at most`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write(
      "a",
      String(repeating: String(repeating: "é", count: 500) + "\n", count: 90)
    )
    let answer = try await bench.call("read", ["path": "a"])
    #expect(answer.text.utf8.count == 51 * 1_001 - 1)
    #expect(
      answer.remarks == ["Showing lines 1-51 of 91 (50KB limit). Use offset=52 to continue."]
    )
  }

  @Test func `a line that is too long is shown to a border of characters`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("it's", "x" + String(repeating: "é", count: 40_000) + "\nnext")
    let answer = try await bench.call("read", ["path": "it's"])
    #expect(answer.text.utf8.count == 51_199)
    #expect(answer.result.diagnostics.first?.severity == .warn)
    #expect(answer.remarks == ["Line 1 is longer than 50KB; only its beginning is shown."])
    #expect(answer.result.details?["truncation"]?["firstLineExceedsLimit"] == true)
  }

  @Test func `only where there is a shell a shell is advised`() async throws {
    let bench = try ToolBench(shell: true)
    defer { bench.remove() }
    try await bench.write("it's", String(repeating: "x", count: 60_000) + "\nnext")
    try await bench.env.writeFile("b", [0])
    let answer = try await bench.call("read", ["path": "it's"])
    #expect(answer.remarks[0].contains("sed -n '1p' '\(bench.folder)/it'\\''s' | tail -c +51201"))
    #expect(await bench.failure("read", ["path": "b"]).hasSuffix("such as file or xxd"))
    let plain = try ToolBench()
    defer { plain.remove() }
    try await plain.env.writeFile("b", [0])
    #expect(await plain.failure("read", ["path": "b"]) == "'/b' is a binary file of 1 byte")
    let edit: JSON = ["path": "b", "oldText": "a", "newText": "b"]
    #expect(
      await plain.failure("edit", edit) == "'/b' is a binary file of 1 byte, which edit would break"
    )
  }

  /// Writes a file of more bytes than are counted, whose first and last parts are text.
  private func writeLarge(_ bench: ToolBench, _ first: String, _ last: String = "") throws {
    let path = URL(filePath: bench.folder).appending(path: "large")
    try Data(first.utf8).write(to: path)
    let file = try FileHandle(forUpdating: path)
    try file.truncate(atOffset: 65 << 20)
    try file.seekToEnd()
    try file.write(contentsOf: Data(last.utf8))
    try file.close()
  }

  @Test func `the lines of a large file are not counted for its beginning`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try writeLarge(bench, "\u{FEFF}" + (1...5_000).map { "line \($0)\n" }.joined())
    let whole = try await bench.call("read", ["path": "large"])
    #expect(whole.text.hasPrefix("line 1\n"))
    #expect(whole.text.hasSuffix("line 2000"))
    #expect(whole.result.details?["truncation"]?["totalLines"] == .null)
    #expect(
      whole.remarks[0].hasSuffix("whose lines were not counted. Use offset=2001 to continue.")
    )
    let part = try await bench.call("read", ["path": "large", "limit": 2])
    #expect(part.text == "line 1\nline 2")
    #expect(part.remarks[0].hasPrefix("Showing lines 1-2 of a file of 68"))
    let later = try await bench.call("read", ["path": "large", "offset": 4_000])
    #expect(later.text.hasPrefix("line 4000\n"))
    #expect(later.remarks[0].hasPrefix("Showing lines 4000-5000 of 5001"))
  }

  @Test func `a large file has lines behind its middle`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let start = String(repeating: "text\n", count: 2_000)
    try writeLarge(bench, start, "\n" + (1...3_000).map { "end \($0)\n" }.joined())
    let answer = try await bench.call("read", ["path": "large", "offset": 2_002])
    #expect(answer.text.hasPrefix("end 1\n"))
    #expect(answer.text.hasSuffix("end 2000"))
    #expect(answer.remarks == ["Showing lines 2002-4001 of 5002. Use offset=4002 to continue."])
    let message = await bench.failure("read", ["path": "large", "offset": .int(.max)])
    #expect(message.contains("which has 5002 lines"))
  }

  @Test func `a large file in wide characters is not decoded to its end`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let path = URL(filePath: bench.folder).appending(path: "wide")
    let text = String(repeating: "h\u{E4}\n", count: 9_000).utf16
    try Data([0xFF, 0xFE] + text.flatMap { [UInt8($0 & 255), UInt8($0 >> 8)] }).write(to: path)
    let file = try FileHandle(forUpdating: path)
    try file.truncate(atOffset: 65 << 20)
    try file.close()
    let answer = try await bench.call("read", ["path": "wide", "offset": 3, "limit": 2])
    #expect(answer.text == "h\u{E4}\nh\u{E4}")
    #expect(answer.remarks[0].contains("whose lines were not counted"))
  }

  @Test func `files that are no text are told of`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.env.writeFile("zero", [65, 0, 66])
    try await bench.env.writeFile("noise", (0..<200).map { _ in UInt8.random(in: 0x80...0xFF) })
    for path in ["zero", "noise"] {
      #expect(await bench.failure("read", ["path": .string(path)]).contains("is a binary file of"))
    }
    try await bench.env.writeFile("few", Array("mostly text \u{E9}".utf8) + [0xFF])
    #expect(try await bench.call("read", ["path": "few"]).text.hasSuffix("é\u{FFFD}"))
  }

  @Test(arguments: [
    (String.Encoding.utf16LittleEndian, [0xFF, 0xFE] as [UInt8], "UTF-16LE"),
    (.utf16BigEndian, [0xFE, 0xFF], "UTF-16BE"),
    (.utf32LittleEndian, [0xFF, 0xFE, 0, 0], "UTF-32LE"),
    (.utf32BigEndian, [0, 0, 0xFE, 0xFF], "UTF-32BE"),
  ])
  func `text in wide characters is decoded, and that is said`(
    encoding: String.Encoding,
    mark: [UInt8],
    name: String
  ) async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let text = String(repeating: "häl\u{1F600}lo\n", count: 10_000)
    let data = try #require(text.data(using: encoding))
    try await bench.env.writeFile("a", mark + Array(data))
    let answer = try await bench.call("read", ["path": "a", "offset": 9_999, "limit": 1])
    #expect(answer.text == "häl\u{1F600}lo")
    #expect(answer.remarks.contains("The file is stored as \(name)."))
    #expect(answer.remarks.contains("2 more lines in the file. Use offset=10000 to continue."))
  }

  @Test func `what is missing is told of with names like it`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write("src/Reader.swift", "x")
    let error = await bench.failure("read", ["path": "src/reader.swit"])
    #expect(error == "'/src/reader.swit' does not exist; did you mean 'Reader.swift'?")
    #expect(await bench.failure("read", ["path": "src"]) == "'/src' is a folder")
  }

  @Test func `an image is shown as one`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let png: [UInt8] =
      [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]
      + [0, 0, 0, 2, 0, 0, 0, 3, 8, 2, 0, 0, 0, 0, 0, 0, 0]
    try await bench.env.writeFile("a.txt", png)
    let answer = try await bench.call("read", ["path": "a.txt"])
    #expect(answer.result.output?.count == 1)
    #expect(answer.result.output?[0]["type"] == "image")
    #expect(answer.result.output?[0]["mimeType"] == "image/png")
    #expect(answer.result.output?[0]["data"]?.text == Data(png).base64EncodedString())
    #expect(answer.codes == ["image"])
    #expect(answer.remarks[0].contains("2x3 pixels"))
  }

  @Test func `an image that is too large is refused unless something makes it smaller`()
    async throws
  {
    let large: [UInt8] = Array("GIF89a".utf8) + [0xD1, 0x07, 1, 0, 0, 0, 0]
    let plain = try ToolBench()
    defer { plain.remove() }
    try await plain.env.writeFile("a", large)
    #expect(await plain.failure("read", ["path": "a"]).contains("(2001x1 pixels, 13 bytes"))
    var options = CodingToolOptions()
    options.processImage = { image in
      CodingToolOptions.Image(
        mimeType: "image/png",
        bytes: [1],
        note: "Scaled from \(image.width ?? 0)."
      )
    }
    let scaling = try ToolBench(options)
    defer { scaling.remove() }
    try await scaling.env.writeFile("a", large)
    let answer = try await scaling.call("read", ["path": "a"])
    #expect(answer.result.output?[0]["mimeType"] == "image/png")
    #expect(answer.remarks[0].hasSuffix("Scaled from 2001."))
  }

  @Test func `files outside the working folder can be refused`() async throws {
    var options = CodingToolOptions()
    options.staysInWorkingFolder = true
    let bench = try ToolBench(shell: true, options)
    defer { bench.remove() }
    try await bench.write("in", "x")
    try FileManager.default.createSymbolicLink(
      atPath: "\(bench.folder)/out",
      withDestinationPath: "/etc"
    )
    #expect(try await bench.call("read", ["path": "in"]).text == "x")
    for path in ["/etc/passwd", "../x", "out/passwd", "out/new/file"] {
      #expect(
        await bench.failure("read", ["path": .string(path)]).contains("outside the working folder")
      )
    }
  }
}

extension ToolBench {
  fileprivate init(_ options: CodingToolOptions) throws { try self.init(shell: false, options) }
}
