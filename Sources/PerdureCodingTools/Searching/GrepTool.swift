import PerdureModel
import PerdureValue

/// The tool `grep`.
struct GrepTool: CodingTool {
  let options: CodingToolOptions

  var tool: Tool {
    Tool(
      name: "grep",
      description: """
        Finds lines of text files by a regular expression. Leaves out what git ignores and binary \
        files. Lines are shown as path:number:text, those around them as path-number-text.
        """,
      parameters: [
        "type": "object",
        "required": ["pattern"],
        "properties": [
          "pattern": ["type": "string", "description": "A regular expression of JavaScript."],
          "path": [
            "type": "string", "description": "A file or folder; absent: the working folder.",
          ],
          "glob": ["type": "string", "description": "Only files that fit, such as *.ts."],
          "ignoreCase": ["type": "boolean"],
          "literal": ["type": "boolean", "description": "Whether the pattern is plain text."],
          "context": [
            "type": "integer", "minimum": 0, "description": "How many lines to show around each.",
          ],
          "limit": [
            "type": "integer", "minimum": 1,
            "description": "How many lines to find; 100 if absent.",
          ],
        ],
      ],
      replay: .safe
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let arguments = call.arguments
    let path = try await ToolPaths(env, options).resolve(arguments["path"]?.text ?? ".")
    var search = try GrepSearch(
      pattern: arguments["pattern"]?.text ?? "",
      isLiteral: arguments["literal"] == true,
      ignoresCase: arguments["ignoreCase"] == true,
      context: Int(clamping: min(max(arguments["context"]?.int ?? 0, 0), 50)),
      limit: Int(clamping: max(arguments["limit"]?.int ?? 100, 1))
    )
    var remark: ToolDiagnostic?
    if try await isFile(env, path) {
      try await search.look(into: path, shownAs: arguments["path"]?.text ?? path, env)
    } else {
      let walk = try await FileWalk(env, path)
      remark = walk.remark
      let filter = arguments["glob"]?.text.map { PathFilter($0) }
      for entry in walk.listing.entries where entry.kind == .file {
        if search.isOver { break }
        if Task.isCancelled { throw FileError.aborted(path) }
        if let filter, !filter.fits(entry.path) { continue }
        try await search.look(
          into: path == "/" ? "/\(entry.path)" : "\(path)/\(entry.path)",
          shownAs: entry.path,
          env
        )
      }
    }
    var result = ToolResult.text(search.lines.isEmpty ? "Nothing fits." : search.text)
    result.diagnostics = search.remarks + (remark.map { [$0] } ?? [])
    return result
  }

  /// Whether a path leads to a file, also over links.
  private func isFile(_ env: any Environment, _ path: String) async throws -> Bool {
    do {
      let reader = try await env.openFile(path)
      await reader.close()
      return true
    } catch {
      guard error.code == .isDirectory else { throw error }
      return false
    }
  }
}

/// Looks for lines in files, with a bound on the work.
struct GrepSearch: Sendable {
  private enum Matcher: Sendable {
    case bytes(ByteSearch)
    case pattern(TextPattern)
  }

  private static let mostBytes: Int64 = 256 << 20
  private static let mostSteps = 200_000_000
  private static let longestLine = 500
  private static let readBytes = 1 << 17

  private let matcher: Matcher
  private let context: Int
  private let limit: Int
  private var bytesLeft = mostBytes
  private var stepsLeft = mostSteps
  private var matches = 0
  private(set) var lines: [String] = []
  private var cutLines = 0

  init(
    pattern: String,
    isLiteral: Bool,
    ignoresCase: Bool,
    context: Int,
    limit: Int
  ) throws {
    guard !pattern.isEmpty else {
      throw PerdureError(.invalidInput, "the pattern is empty", hint: "give what to look for")
    }
    self.context = context
    self.limit = limit
    let special = "^$\\.*+?()[]{}|/"
    if !ignoresCase, isLiteral || !pattern.contains(where: special.contains) {
      matcher = .bytes(ByteSearch(Array(pattern.utf8)))
      return
    }
    let source =
      isLiteral
      ? pattern.map { special.contains($0) ? "\\\($0)" : String($0) }.joined() : pattern
    do {
      matcher = .pattern(try TextPattern(source, ignoringCase: ignoresCase))
    } catch {
      throw PerdureError(
        .invalidInput,
        "the pattern \(pattern.quotedForMessage) is no regular expression: \(error.text)",
        hint: "escape what is meant as itself, or set literal"
      )
    }
  }

  /// Whether nothing more is looked for.
  var isOver: Bool { matches >= limit || bytesLeft <= 0 || stepsLeft <= 0 }

  var text: String { lines.joined(separator: "\n") }

  /// What is said of what was not looked at.
  var remarks: [ToolDiagnostic] {
    var remarks: [ToolDiagnostic] = []
    if matches >= limit {
      let text = "The first \(limit) lines are shown. Use limit or a narrower pattern."
      remarks.append(ToolDiagnostic(.info, text, code: "truncated"))
    } else if isOver {
      let text = "The search was ended because it took too much work; search in fewer files."
      remarks.append(ToolDiagnostic(.warn, text, code: "truncated"))
    }
    if cutLines > 0 {
      let text = "\(cutLines) long lines are cut after \(Self.longestLine) bytes."
      remarks.append(ToolDiagnostic(.info, text, code: "line_truncated"))
    }
    return remarks
  }

  /// Looks into one file; one that cannot be read is passed over.
  mutating func look(into path: String, shownAs name: String, _ env: any Environment) async throws {
    let reader: any FileReader
    do {
      reader = try await env.openFile(path)
    } catch {
      if error.code == .aborted { throw error }
      return
    }
    var file = GrepFile(name: name, context: context)
    var offset: Int64 = 0
    while !isOver {
      let piece: [UInt8]
      do {
        piece = try await reader.read(offset: offset, length: Self.readBytes)
      } catch {
        await reader.close()
        if error.code == .aborted { throw error }
        return
      }
      if offset == 0, TextEncoding.isBinary(Array(piece.prefix(8_192))) { break }
      offset += Int64(piece.count)
      bytesLeft -= Int64(piece.count)
      for line in file.take(piece) { add(line, &file) }
      if piece.isEmpty { break }
    }
    await reader.close()
  }

  private mutating func add(_ line: ArraySlice<UInt8>, _ file: inout GrepFile) {
    let isMatch = matches < limit && fits(line)
    if isMatch { matches += 1 }
    for (text, isCut) in file.show(line, isMatch: isMatch, longest: Self.longestLine) {
      lines.append(text)
      if isCut { cutLines += 1 }
    }
  }

  private mutating func fits(_ line: ArraySlice<UInt8>) -> Bool {
    switch matcher {
    case .bytes(let search): return !search.places(in: Array(line), limit: 1).isEmpty
    case .pattern(let pattern):
      return pattern.matches(String(decoding: line, as: UTF8.self), steps: &stepsLeft) ?? false
    }
  }
}

/// The lines of one file, with those around the ones that are found.
struct GrepFile: Sendable {
  /// Longer lines are looked at in pieces.
  private static let longest = 1 << 20

  let name: String
  let context: Int
  private var waiting: [UInt8] = []
  private var number = 0
  private var before: [(number: Int, line: ArraySlice<UInt8>)] = []
  private var after = 0
  private var lastShown = 0

  init(name: String, context: Int) {
    self.name = name
    self.context = context
  }

  /// Takes bytes, none at the end of the file, and returns the lines that are complete.
  mutating func take(_ piece: [UInt8]) -> [ArraySlice<UInt8>] {
    waiting += piece
    var lines: [ArraySlice<UInt8>] = []
    var start = 0
    while let end = waiting[start...].firstIndex(of: 0x0A) {
      lines.append(waiting[start..<end])
      start = end + 1
    }
    let isLast = piece.isEmpty || waiting.count - start > Self.longest
    if isLast, start < waiting.count {
      lines.append(waiting[start...])
      start = waiting.count
    }
    waiting = Array(waiting[start...])
    return lines
  }

  /// What is shown once this line is known.
  mutating func show(
    _ line: ArraySlice<UInt8>,
    isMatch: Bool,
    longest: Int
  ) -> [(text: String, isCut: Bool)] {
    number += 1
    var shown: [(text: String, isCut: Bool)] = []
    if isMatch {
      if context > 0, lastShown > 0, number - before.count > lastShown + 1 {
        shown.append(("--", false))
      }
      for (number, line) in before { shown.append(text(number, line, "-", longest)) }
      before = []
      shown.append(text(number, line, ":", longest))
      after = context
      lastShown = number
    } else if after > 0 {
      after -= 1
      shown.append(text(number, line, "-", longest))
      lastShown = number
    } else if context > 0 {
      before.append((number, line.prefix(longest + 1)))
      if before.count > context { before.removeFirst() }
    }
    return shown
  }

  private func text(
    _ number: Int,
    _ line: ArraySlice<UInt8>,
    _ sign: String,
    _ longest: Int
  ) -> (text: String, isCut: Bool) {
    var end = line.startIndex + min(line.count, longest)
    while end > line.startIndex, end < line.endIndex, line[end] & 0xC0 == 0x80 { end -= 1 }
    var part = line[..<end]
    if part.last == 0x0D { part.removeLast() }
    let isCut = end < line.endIndex
    let text = String(decoding: part, as: UTF8.self) + (isCut ? "…" : "")
    return ("\(name)\(sign)\(number)\(sign)\(text)", isCut)
  }
}
