import PerdureModel
import PerdureValue

extension EnvironmentConformance {
  static let fileReaderCases = each(
    .fileReader,
    [
      ("parts are read, and nothing behind the end", ranges),
      ("a reader that is closed or cancelled reads nothing", closed),
      ("found lines are those of the decoded file", scans),
      ("a reader keeps its file when another one takes its name", keeps),
      ("folders and what is missing are not opened", refuses),
    ]
  )

  static let folderReaderCases = each(
    .folderReader,
    [
      ("pages hold every entry once", pages),
      ("an empty folder has an empty page, again and again", emptyFolder),
      ("what is missing or no folder is not opened", noFolder),
      ("entries that are removed meanwhile are passed over", vanishing),
    ]
  )

  private static let ranges: Body = { harness in
    let env = harness.env
    try await env.writeFile("f", "0123456789")
    let reader = try await env.openFile("f")
    try expect(try await reader.info().size, 10, "the size")
    try expect(try await reader.info().kind, .file, "the kind")
    let parts: [(Int64, Int, String)] = [
      (0, 10, "0123456789"), (2, 3, "234"), (8, 10, "89"), (10, 5, ""), (500, 5, ""), (3, 0, ""),
    ]
    for (offset, length, text) in parts {
      let bytes = try await reader.read(offset: offset, length: length)
      try expect(
        String(decoding: bytes, as: UTF8.self),
        text,
        "\(length) bytes from \(offset) on"
      )
    }
    try await expectFileError(.invalid, "a negative offset") {
      _ = try await reader.read(offset: -1, length: 1)
    }
    try await expectFileError(.invalid, "a negative length") {
      _ = try await reader.read(offset: 0, length: -1)
    }
    await reader.close()
  }

  private static let closed: Body = { harness in
    let env = harness.env
    try await env.writeFile("f", "text")
    let reader = try await env.openFile("f")
    try await expectFileError(.aborted, "reading when cancelled") {
      try await cancelled { _ = try await reader.read(offset: 0, length: 1) }
    }
    try expect(try await reader.read(offset: 0, length: 4).count, 4, "what is read afterwards")
    await reader.close()
    await reader.close()
    try await expectFileError(.invalid, "reading after the end") {
      _ = try await reader.read(offset: 0, length: 1)
    }
    try await expectFileError(.invalid, "asking after the end") { _ = try await reader.info() }
    try await expectFileError(.invalid, "scanning after the end") {
      _ = try await reader.scanLines(from: 0, to: nil)
    }
  }

  private static let texts: [[UInt8]] = [
    [], Array("one".utf8), Array("one\n".utf8), Array("one\ntwo\r\n\nfour".utf8),
    Array("\u{FEFF}one\n\u{FEFF}two\nthree\u{FEFF}\n".utf8), Array("\u{FEFF}".utf8),
    Array("\u{FEFF}\n\n".utf8), Array("häß\nŁ\u{1F600}\n".utf8),
    [0xEF, 0xBB], [0xF0, 0x9F, 0x98, 10, 0x80, 0x80, 10, 0xC3], [0xC3, 10, 0xA4, 0xE2, 0x82],
    Array(String(repeating: "line of text\n", count: 60_000).utf8),
  ]

  private static let scans: Body = { harness in
    let env = harness.env
    for (number, bytes) in texts.enumerated() {
      try await env.writeFile("f", bytes)
      let reader = try await env.openFile("f")
      for (start, end) in [(0, nil), (0, 1), (1, 3), (2, nil), (1, 2), (3, 50), (99_999, nil)]
        as [(Int, Int?)]
      {
        let scan = try await reader.scanLines(from: start, to: end)
        try expect(
          scan,
          expectedScan(bytes, start, end),
          "lines \(start) to \(end.map(String.init) ?? "the end") of text \(number)"
        )
      }
      await reader.close()
    }
    let reader = try await env.openFile("f")
    for (start, end) in [(2, 2), (3, 1), (-1, nil), (0, 0)] as [(Int, Int?)] {
      try await expectFileError(.invalid, "the lines from \(start)") {
        _ = try await reader.scanLines(from: start, to: end)
      }
    }
    await reader.close()
  }

  /// What a scan has to say, found by splitting the whole file.
  private static func expectedScan(_ bytes: [UInt8], _ start: Int, _ end: Int?) -> LineScan {
    let mark = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
    let lines = bytes[mark...].split(separator: 10, omittingEmptySubsequences: false)
    let size = Int64(bytes.count)
    guard start < lines.count else {
      return LineScan(
        newlines: lines.count - 1,
        start: size,
        end: size,
        firstLineEnd: size,
        lastLineStart: size,
        selectedBytes: 0,
        firstLineBytes: 0
      )
    }
    let selected = lines[start..<min(end ?? .max, lines.count)]
    func decoded(_ line: ArraySlice<UInt8>) -> Int64 {
      Int64(String(decoding: line, as: UTF8.self).utf8.count)
    }
    let first = selected.first ?? []
    let last = selected.last ?? []
    return LineScan(
      newlines: lines.count - 1,
      start: Int64(first.startIndex),
      end: Int64(last.endIndex),
      firstLineEnd: Int64(first.endIndex),
      lastLineStart: Int64(last.startIndex),
      selectedBytes: selected.map(decoded).reduce(0, +) + Int64(selected.count - 1),
      firstLineBytes: decoded(first)
    )
  }

  private static let keeps: Body = { harness in
    let env = harness.env
    try await env.writeFile("f", "old content")
    let reader = try await env.openFile("f")
    try await env.rename("f", to: "g")
    try await env.writeFile("f", "new")
    let bytes = try await reader.read(offset: 0, length: 100)
    try expect(
      String(decoding: bytes, as: UTF8.self),
      "old content",
      "what the reader reads after its file was replaced"
    )
    await reader.close()
  }

  private static let refuses: Body = { harness in
    let env = harness.env
    try await env.createFolder("d")
    try await expectFileError(.isDirectory, "opening a folder") {
      _ = try await env.openFile("d")
    }
    try await expectFileError(.notFound, "opening what is missing") {
      _ = try await env.openFile("missing")
    }
    try await expectFileError(.aborted, "opening when cancelled") {
      try await cancelled { _ = try await env.openFile("missing") }
    }
  }

  private static let pages: Body = { harness in
    let env = harness.env
    for number in 0..<25 {
      try await env.writeFile("d/f\(number)", String(repeating: "x", count: number))
    }
    try await env.createFolder("d/sub")
    let reader = try await env.openFolder("d")
    var entries: [FileInfo] = []
    while true {
      let page = try await reader.next(4)
      try expect(page.entries.count <= 4, true, "whether a page keeps its size")
      entries += page.entries
      if page.isLast { break }
    }
    await reader.close()
    try expect(entries.count, 26, "how many entries there are")
    try expect(Set(entries.map { $0.name }).count, 26, "how many different ones")
    for entry in entries where entry.kind == .file {
      try expect(
        entry.name,
        "f\(entry.size)",
        "the name of the entry with \(entry.size) bytes"
      )
      try expect(entry.path, try env.absolutePath("d/\(entry.name)"), "its path")
    }
    try expect(entries.filter { $0.kind == .directory }.map { $0.name }, ["sub"], "the folders")
    try expect(try await env.listFolder("d").count, 26, "the length of the whole list")
  }

  private static let emptyFolder: Body = { harness in
    let env = harness.env
    try await env.createFolder("d")
    let reader = try await env.openFolder("d")
    for _ in 0..<3 {
      try expect(
        try await reader.next(10),
        FolderPage(entries: [], isLast: true),
        "a page of an empty folder"
      )
    }
    try await expectFileError(.invalid, "a page of 0 entries") { _ = try await reader.next(0) }
    try await expectFileError(.aborted, "a page when cancelled") {
      try await cancelled { _ = try await reader.next(1) }
    }
    await reader.close()
    await reader.close()
    try await expectFileError(.invalid, "a page after the end") { _ = try await reader.next(1) }
  }

  private static let noFolder: Body = { harness in
    let env = harness.env
    try await env.writeFile("f", "x")
    try await expectFileError(.notFound, "a missing folder") {
      _ = try await env.openFolder("missing")
    }
    try await expectFileError(.notDirectory, "a file as a folder") {
      _ = try await env.openFolder("f")
    }
    try await expectFileError(.aborted, "a folder when cancelled") {
      try await cancelled { _ = try await env.openFolder("f") }
    }
  }

  private static let vanishing: Body = { harness in
    let env = harness.env
    for number in 0..<12 { try await env.writeFile("d/f\(number)", "x") }
    let reader = try await env.openFolder("d")
    let first = try await reader.next(1).entries.map { $0.name }
    let kept = Set(first)
    for number in 0..<12 where !kept.contains("f\(number)") {
      try await env.remove("d/f\(number)")
    }
    var later: [String] = []
    while true {
      let page = try await reader.next(5)
      later += page.entries.map { $0.name }
      if page.isLast { break }
    }
    await reader.close()
    try expect(later, [], "the entries after all others were removed")
  }
}
