import PerdureModel
import PerdureValue

/// Looks for lines in files, with a bound on the work.
struct GrepSearch: Sendable {
  private enum Matcher: Sendable {
    case bytes(ByteSearch, String)
    case pattern(TextPattern)
  }

  private static let mostBytes: Int64 = 256 << 20
  private static let mostSteps = 200_000_000
  private static let mostShown = 256 << 10
  private static let longestLine = 500
  private static let readBytes = 1 << 17

  private let matcher: Matcher
  private let context: Int
  private let limit: Int
  private let isDefaultLimit: Bool
  private var bytesLeft = mostBytes
  private var stepsLeft = mostSteps
  private var matches = 0
  private(set) var lines: [String] = []
  private var shownBytes = 0
  private var cutLines = 0

  init(
    pattern: String,
    isLiteral: Bool,
    ignoresCase: Bool,
    context: Int,
    limit: Int,
    isDefaultLimit: Bool
  ) throws {
    guard !pattern.isEmpty else {
      throw PerdureError(.invalidInput, "the pattern is empty", hint: "give what to look for")
    }
    self.context = context
    self.limit = limit
    self.isDefaultLimit = isDefaultLimit
    let special = "^$\\.*+?()[]{}|/"
    if !ignoresCase, isLiteral || !pattern.contains(where: special.contains) {
      matcher = .bytes(ByteSearch(Array(pattern.utf8)), pattern)
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

  /// What a quicker program may look for first.
  var outline: Ripgrep.Outline? {
    switch matcher {
    // No line holds its own end.
    case .bytes(_, let text): text.utf8.contains(0x0A) ? nil : .literal(text)
    case .pattern(let pattern): pattern.wider.map { .expression($0) }
    }
  }

  /// Whether nothing more is looked for.
  var isOver: Bool {
    matches >= limit || bytesLeft <= 0 || stepsLeft <= 0 || shownBytes >= Self.mostShown
  }

  var text: String { lines.joined(separator: "\n") }

  /// What is said of what was not looked at.
  var remarks: [ToolDiagnostic] {
    var remarks: [ToolDiagnostic] = []
    if matches >= limit {
      let text =
        "The first \(limit) lines are shown" + (isDefaultLimit ? " (the default limit)" : "")
        + ". Use limit or a narrower pattern."
      remarks.append(ToolDiagnostic(.info, text, code: "truncated"))
    } else if shownBytes >= Self.mostShown {
      let text =
        "The search was ended after \(Self.mostShown) bytes of lines. Use a narrower pattern."
      remarks.append(ToolDiagnostic(.warn, text, code: "truncated"))
    } else if isOver {
      let text = "The search was ended because it took too much work; search in fewer files."
      remarks.append(ToolDiagnostic(.warn, text, code: "truncated"))
    }
    if cutLines > 0 {
      let text =
        cutLines == 1
        ? "1 long line is cut after \(Self.longestLine) bytes."
        : "\(cutLines) long lines are cut after \(Self.longestLine) bytes."
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
      if Task.isCancelled {
        await reader.close()
        throw FileError.aborted(path)
      }
      if offset == 0, TextEncoding.isBinary(Array(piece.prefix(8_192))) { break }
      offset += Int64(piece.count)
      bytesLeft -= Int64(piece.count)
      for line in file.take(piece) {
        if isOver { break }
        add(line, &file)
      }
      if piece.isEmpty { break }
    }
    await reader.close()
  }

  private mutating func add(_ line: GrepFile.Line, _ file: inout GrepFile) {
    // One that goes on is found once.
    let isKnown = line.continues && file.hasFound
    let isMatch = !isKnown && matches < limit && fits(line.bytes)
    if isMatch { matches += 1 }
    for (text, isCut) in file.show(line, isMatch: isMatch, longest: Self.longestLine) {
      lines.append(text)
      shownBytes += text.utf8.count + 1
      if isCut { cutLines += 1 }
    }
  }

  private mutating func fits(_ line: ArraySlice<UInt8>) -> Bool {
    switch matcher {
    case .bytes(let search, _): return !search.places(in: Array(line), limit: 1).isEmpty
    case .pattern(let pattern):
      return pattern.matches(String(decoding: line, as: UTF8.self), steps: &stepsLeft) ?? false
    }
  }
}
